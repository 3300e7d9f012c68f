use super::*;

fn node(ready: bool, since: Timestamp) -> Node {
    Node { ready, since, seen: 0, out_of_service: false, cordoned: false, zone: None }
}

// S28: this process measures how long a node has reported; times in the API come from other clocks.
#[test]
fn a_node_reports_since_this_process_saw_it() {
    let hints = Hints::default();
    let times = |life: &str, node: Node, now| {
        let node = hints.node("n", life, node, now);
        (node.since, node.seen)
    };
    assert_eq!(times("a", node(true, 100), 5000), (100, 5000), "ready for long, and seen for the first time");
    assert_eq!(times("a", node(true, 100), 5040), (100, 5000));
    assert_eq!(times("b", node(true, 90), 5100), (5100, 5100), "a break, whatever its clock says");
    assert_eq!(times("b", node(false, 90), 5200).1, 5200);
    assert_eq!(times("b", node(true, 90), 5300), (5300, 5300), "it was silent in between");
    assert_eq!(times("b", node(true, 90), 5400), (5300, 5300));
    let hints = Hints::default();
    let ahead = |now| hints.node("n", "a", node(true, 9000), now).since;
    assert_eq!((ahead(5000), ahead(5060)), (5000, 5000), "no start of reporting lies in the future");
}

// S28: nodes come and go for years. What this process saw of those that exist stays, however they are named.
#[test]
fn nodes_that_came_and_went_push_out_no_other() {
    let hints = Hints::default();
    let seen = |name: &str, now| hints.node(name, "a", node(true, 0), now).seen;
    let mut now = 1000;
    for number in 0..2 * NODES {
        now += 1;
        assert_eq!(seen(&format!("gone-{number}"), now), now);
        assert_eq!((seen("a", now), seen("z", now)), (1001, 1001), "after {number} others");
    }
    assert_eq!(hints.nodes.lock().unwrap().len(), NODES);
}
