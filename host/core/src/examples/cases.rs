//! The example questions, by point and by what is special about them. `docs/exam.md` has the same list for authors.
use crate::contract::Outcome;
use crate::contract::Role::{Primary, Secondary, Stopped};
use crate::examples::{Scene, told};
use crate::limits;
use crate::policy::{Point, Question};
use crate::snapshot::Batch;

/// A question about an example group.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name. Cases of one name are about the same situation at different points.
    pub name: &'static str,
    /// The decision point.
    pub point: Point,
    /// What is special about it, in a few words.
    pub about: &'static str,
    made: Made,
}

/// How the question is made.
#[derive(Debug, Clone, Copy)]
enum Made {
    /// As a round asks it about the usual group of its point.
    Usual,
    /// As a round asks it about this group.
    Of(fn() -> Scene),
    /// The usual question of the point, with everything that the contract has words for.
    Told,
    /// The usual question of the point, about so many members.
    Many(u32),
}

impl Case {
    /// The question. A case with many members takes some milliseconds and a megabyte.
    ///
    /// `None`: the question does not arise any more about the group of the case. A test of the core says that each does.
    #[must_use]
    pub fn question(&self) -> Option<Question> {
        let (group, patterns) = usual(self.point);
        match self.made {
            Made::Usual => group.question(self.point),
            Made::Of(other) => other().question(self.point),
            Made::Told => group.question(self.point).map(told::everything),
            Made::Many(members) => group.grown(members, patterns).question(self.point),
        }
    }

    /// Whether this is the usual question of its point: five members of different data, of which some are barred.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        matches!(self.made, Made::Usual)
    }
}

/// Every case, the ones about few members first. The first of each point is its usual question.
#[must_use]
pub fn cases() -> Vec<Case> {
    let ordinary = USUAL.map(|(point, name, about)| Case { name, point, about, made: Made::Usual });
    let special = SPECIAL.map(|(point, name, about, scene)| Case { name, point, about, made: Made::Of(scene) });
    let every = |name, about, made| Point::ALL.map(move |point| Case { name, point, about, made });
    let many = u32::try_from(limits::MEMBERS).unwrap_or(u32::MAX);
    ordinary
        .into_iter()
        .chain(special)
        .chain(every(
            "everything-told",
            "facts, conditions, labels and history as long as the contract allows",
            Made::Told,
        ))
        .chain(every("hundred-members", "100 members", Made::Many(100)))
        .chain(every("thousand-members", "1,000 members", Made::Many(many)))
        .collect()
}

/// The usual group of a point, and the ordinals whose members are repeated in turn when there are to be more
/// ([`Scene::grown`]).
#[must_use]
pub fn usual(point: Point) -> (Scene, &'static [u32]) {
    match point {
        Point::Seed => (restart(), &[0, 1, 2, 3]),
        Point::Failover => (lost_primary(), &[1, 2, 3, 4]),
        Point::Join => (more_primaries(), &[1, 2, 3, 4]),
        Point::Demote => (surplus_primaries(), &[1, 2, 3]),
        Point::Place => (new_secondary(), &[1, 2, 3, 4]),
        Point::Treat => (failed_members(), &[1, 2, 3, 4]),
        Point::Switchover => (drained_primary(), &[1, 2, 4]),
        Point::Rebalance => (crowded_zone(), &[1, 2, 3, 4]),
        Point::Update => (changed_template(), &[1, 2, 3]),
        Point::Judge => (watched_member(), &[1, 2, 3]),
        Point::Admit => (more_members(), &[1, 2]),
        Point::Order => (fewer_members(), &[1, 2, 3, 4]),
    }
}

type Row = (Point, &'static str, &'static str, fn() -> Scene);

const USUAL: [(Point, &str, &str); 12] = [
    (Point::Seed, "restart", "every member is stopped; two have the highest data"),
    (Point::Failover, "lost-primary", "the primary's pod is gone; two secondaries have the highest data"),
    (Point::Join, "more-primaries", "one of three primaries serves; stopped members differ in data"),
    (Point::Demote, "surplus-primaries", "four primaries serve, one is desired"),
    (Point::Place, "new-secondary", "the primary serves; stopped members differ in data"),
    (Point::Treat, "failed-members", "members failed in each way"),
    (Point::Switchover, "drained-primary", "the primary's node is to be drained; secondaries on other nodes follow it"),
    (Point::Rebalance, "crowded-zone", "every member is in its role; three secondaries are in one zone"),
    (
        Point::Update,
        "changed-template",
        "the template changed; one of five members has it, and the others are in their roles",
    ),
    (Point::Judge, "watched-member", "the template changed; the first member that got it is watched"),
    (Point::Admit, "more-members", "every member is in its role, and two more are asked for"),
    (Point::Order, "fewer-members", "every member is in its role, and two of five leave"),
];

const SPECIAL: [Row; 34] = [
    (Point::Seed, "forming", "a new group: no member has data, and all are alike", forming),
    (Point::Seed, "one-member", "a group of one member", one_member),
    (Point::Treat, "one-member", "a group of one member", one_failed),
    (Point::Seed, "one-left", "all but one member are barred", one_left_to_seed),
    (Point::Failover, "one-left", "all but one member are barred", one_left_to_promote),
    (Point::Join, "one-left", "all but one member are barred", one_left_to_join),
    (Point::Place, "one-left", "all but one member are barred", one_left_to_place),
    (Point::Seed, "equal-data", "all members have the same data", equal_stopped),
    (Point::Failover, "equal-data", "the stopped old primary has the same data as the secondaries", equal_data),
    (Point::Demote, "equal-data", "all members have the same data", equal_primaries),
    (
        Point::Demote,
        "leaving-primaries",
        "three of three desired primaries serve; two of them leave, and a stopped member can join for one of them",
        leaving_primaries,
    ),
    (
        Point::Failover,
        "unreadable",
        "one member's data cannot be read, and spec.failover.reads does without it",
        unreadable,
    ),
    (
        Point::Failover,
        "may-be-behind",
        "spec.failover.maxBehind allows secondaries that are a little behind; one is behind by more",
        may_be_behind,
    ),
    (
        Point::Join,
        "unreadable",
        "of the members that may be chosen one cannot be read and one is empty",
        unreadable_to_join,
    ),
    (
        Point::Place,
        "unreadable",
        "of the members that may be chosen one cannot be read and one is empty",
        unreadable_to_place,
    ),
    (
        Point::Failover,
        "other-history",
        "a member of an older term has a higher number, of another history",
        other_history,
    ),
    (
        Point::Place,
        "other-history",
        "a member of an older term has a higher number, of another history",
        other_history_to_place,
    ),
    (Point::Switchover, "settled", "nothing is to be done; the primary serves, and all secondaries follow it", settled),
    (Point::Switchover, "leaving-primary", "the primary is beyond spec.replicas and leaves", leaving_primary),
    (Point::Switchover, "one-left", "all but one member are barred", one_left_to_lead),
    (Point::Rebalance, "settled", "nothing is to be done; the primary serves, and all secondaries follow it", settled),
    (Point::Rebalance, "several-primaries", "two of two desired primaries serve, and secondaries follow them", several),
    (Point::Rebalance, "one-left", "all but one member are barred", one_left_to_move),
    (
        Point::Update,
        "several-primaries",
        "two of two desired primaries serve, and none has the changed template",
        several_to_update,
    ),
    (Point::Update, "batches", "the secondaries may get the changed template together", batches),
    (Point::Update, "one-left", "all but one member are barred", one_left_to_update),
    (Point::Judge, "one-left", "all but one member are barred, as always", watched_member),
    (Point::Admit, "less-members", "every member is in its role, and two fewer are asked for", less_members),
    (Point::Admit, "to-zero", "every member is in its role, and none is asked for", to_zero),
    (Point::Admit, "one-left", "all but one member are barred", one_more_member),
    (Point::Order, "members-to-add", "the members agree on who they are, and two are to be added", members_to_add),
    (
        Point::Order,
        "members-to-remove",
        "the members agree on who they are, and two are to be removed",
        members_to_remove,
    ),
    (Point::Order, "one-left", "all but one member are barred", one_fewer_member),
    (Point::Join, "secondaries", "no stopped member is left; secondaries may be chosen", secondaries),
];

fn restart() -> Scene {
    let data = ["a:18", "a:15", "a:18", "a:12", "a:18"];
    Scene::new(5).in_term(3).with_data(&data).of_term(3, 2).led(0).rests(4).labelled()
}

fn lost_primary() -> Scene {
    let roles = [Stopped, Secondary, Secondary, Secondary, Stopped];
    let scene = Scene::new(5).in_term(3).with_data(&["a:20", "a:20", "a:20", "a:17", "a:9"]).of_term(4, 2);
    scene.with_roles(&roles).led(0).gone(0).labelled()
}

fn more_primaries() -> Scene {
    let roles = [Primary, Stopped, Stopped, Stopped, Stopped];
    let scene = Scene::new(5).primaries(3).in_term(3).with_data(&["a:20", "a:15", "a:18", "a:18", "a:20"]);
    scene.with_roles(&roles).rests(4).labelled()
}

fn surplus_primaries() -> Scene {
    let roles = [Primary, Primary, Primary, Primary, Secondary];
    Scene::new(5).in_term(3).with_data(&["a:20", "a:20", "a:19", "a:20", "a:20"]).with_roles(&roles).labelled()
}

fn new_secondary() -> Scene {
    let roles = [Primary, Stopped, Stopped, Stopped, Stopped];
    let scene = Scene::new(5).in_term(3).with_data(&["a:20", "a:15", "a:18", "a:12", "a:20"]).of_term(3, 2);
    scene.with_roles(&roles).rests(4).labelled()
}

fn failed_members() -> Scene {
    let scene = Scene::new(6).in_term(3).with_data(&["a:20", "a:20", "a:19", "a:18", "a:20", "?"]);
    let scene = scene.with_roles(&[Primary, Stopped, Stopped, Stopped, Stopped, Stopped]);
    let scene =
        scene.broken(1).failed(2, "stop", Outcome::Exited(1), false).failed(3, "primary", Outcome::NotStarted, false);
    scene.failed(4, "secondary", Outcome::Unknown, false).failed(5, "stop", Outcome::Exited(-1), true).labelled()
}

fn drained_primary() -> Scene {
    let roles = [Primary, Secondary, Secondary, Secondary, Secondary];
    let scene = Scene::new(5).in_term(3).with_data(&["a:20", "a:20", "a:19", "a:20", "a:20"]).with_roles(&roles);
    scene.drained(0).rests(4).labelled()
}

fn settled() -> Scene {
    let roles = [Primary, Secondary, Secondary, Secondary];
    Scene::new(4).in_term(3).with_data(&["a:20"; 4]).with_roles(&roles).labelled()
}

fn leaving_primary() -> Scene {
    let roles = [Secondary, Secondary, Secondary, Primary];
    Scene::new(4).in_term(3).with_data(&["a:20"; 4]).with_roles(&roles).desired(3).labelled()
}

fn leaving_primaries() -> Scene {
    let roles = [Primary, Stopped, Stopped, Primary, Primary];
    Scene::new(5).primaries(3).in_term(3).with_data(&["a:20"; 5]).with_roles(&roles).desired(3).labelled()
}

fn one_left_to_lead() -> Scene {
    let roles = [Primary, Stopped, Stopped, Secondary, Secondary];
    let scene = Scene::new(5).in_term(3).with_data(&["a:20"; 5]).with_roles(&roles);
    scene.drained(0).labelled()
}

fn crowded_zone() -> Scene {
    let roles = [Primary, Secondary, Secondary, Secondary, Secondary];
    let scene = Scene::new(5).in_term(3).with_data(&["a:20", "a:20", "a:19", "a:20", "a:20"]).with_roles(&roles);
    scene.on_node_of(3, 1).rests(4).labelled()
}

fn several() -> Scene {
    let roles = [Primary, Primary, Secondary, Secondary];
    Scene::new(4).primaries(2).in_term(3).with_data(&["a:20"; 4]).with_roles(&roles).labelled()
}

fn changed_template() -> Scene {
    let roles = [Primary, Secondary, Secondary, Secondary, Secondary];
    let scene = Scene::new(5).in_term(3).with_data(&["a:20", "a:20", "a:19", "a:20", "a:20"]).with_roles(&roles);
    scene.outdated(&[0, 1, 2, 3]).labelled()
}

fn watched_member() -> Scene {
    changed_template().watched(4)
}

fn five() -> Scene {
    let roles = [Primary, Secondary, Secondary, Secondary, Secondary];
    Scene::new(5).in_term(3).with_data(&["a:20", "a:20", "a:19", "a:20", "a:20"]).with_roles(&roles).labelled()
}

fn three() -> Scene {
    let roles = [Primary, Secondary, Secondary];
    Scene::new(3).in_term(3).with_data(&["a:20", "a:20", "a:19"]).with_roles(&roles).labelled()
}

fn more_members() -> Scene {
    three().asks_for(5)
}

fn less_members() -> Scene {
    five().asks_for(3)
}

fn to_zero() -> Scene {
    three().asks_for(0)
}

fn one_more_member() -> Scene {
    three().asks_for(4)
}

fn fewer_members() -> Scene {
    five().desired(3)
}

fn one_fewer_member() -> Scene {
    five().desired(4)
}

fn members_to_add() -> Scene {
    let roles = [Primary, Secondary, Secondary, Stopped, Stopped];
    let data = ["a:20", "a:20", "a:19", "EMPTY", "EMPTY"];
    Scene::new(5).in_term(3).with_data(&data).with_roles(&roles).labelled().agreeing(&[0, 1, 2])
}

fn members_to_remove() -> Scene {
    five().desired(3).agreeing(&[0, 1, 2, 3, 4])
}

fn several_to_update() -> Scene {
    several().outdated(&[0, 1, 2, 3])
}

fn batches() -> Scene {
    settled().outdated(&[0, 1, 2, 3]).in_batches(Batch::All)
}

fn one_left_to_update() -> Scene {
    settled().outdated(&[0, 2])
}

fn one_left_to_move() -> Scene {
    let scene = Scene::new(3).in_term(3).with_data(&["a:20"; 3]).with_roles(&[Primary, Secondary, Secondary]);
    scene.rests(1)
}

fn forming() -> Scene {
    Scene::new(3)
}

fn one_member() -> Scene {
    Scene::new(1).in_term(2).with_data(&["7"]).led(0)
}

fn one_failed() -> Scene {
    one_member().broken(0)
}

fn one_left_to_seed() -> Scene {
    Scene::new(3).in_term(3).with_data(&["a:18", "a:15", "a:18"]).rests(0)
}

fn one_left_to_promote() -> Scene {
    let scene = Scene::new(3).in_term(3).with_data(&["a:18", "a:15", "a:18"]);
    scene.with_roles(&[Primary, Secondary, Secondary]).gone(0)
}

fn one_left_to_join() -> Scene {
    Scene::new(3).primaries(3).in_term(3).with_data(&["18", "18", "3"]).with_roles(&[Primary, Primary, Stopped])
}

fn one_left_to_place() -> Scene {
    Scene::new(3).in_term(3).with_data(&["18", "18", "3"]).with_roles(&[Primary, Secondary, Stopped])
}

fn equal_stopped() -> Scene {
    Scene::new(4).in_term(3).with_data(&["a:20"; 4])
}

fn equal_data() -> Scene {
    Scene::new(4).in_term(3).with_data(&["a:20"; 4]).with_roles(&[Stopped, Secondary, Secondary, Secondary]).led(0)
}

fn equal_primaries() -> Scene {
    Scene::new(4).in_term(3).with_data(&["a:20"; 4]).with_roles(&[Primary; 4])
}

fn unreadable() -> Scene {
    let scene = Scene::new(4).reads(2).in_term(3).with_data(&["a:20", "?", "a:20", "a:20"]);
    scene.with_roles(&[Stopped, Secondary, Secondary, Secondary]).led(0).gone(0)
}

fn may_be_behind() -> Scene {
    let scene = Scene::new(5).max_behind(5).in_term(3).with_data(&["?", "a:18", "a:20", "a:19", "a:12"]);
    scene.with_roles(&[Stopped, Secondary, Secondary, Secondary, Secondary]).led(0).gone(0)
}

fn unreadable_to_join() -> Scene {
    unread().primaries(3)
}

fn unreadable_to_place() -> Scene {
    unread()
}

fn unread() -> Scene {
    let scene = Scene::new(5).in_term(3).with_data(&["20", "?", "EMPTY", "12", "EMPTY"]);
    scene.with_roles(&[Primary, Stopped, Stopped, Stopped, Secondary])
}

fn other_history() -> Scene {
    let scene = Scene::new(4).in_term(3).with_data(&["a:20", "a:20", "a:20", "b:900"]).of_term(3, 2);
    scene.with_roles(&[Stopped, Secondary, Secondary, Secondary]).led(0).gone(0)
}

fn other_history_to_place() -> Scene {
    let scene = Scene::new(4).in_term(3).with_data(&["a:20", "a:15", "b:900", "a:12"]).of_term(2, 2);
    scene.with_roles(&[Primary, Stopped, Stopped, Stopped])
}

fn secondaries() -> Scene {
    let scene = Scene::new(4).primaries(3).in_term(3).with_data(&["a:20", "a:20", "a:19", "a:20"]);
    scene.with_roles(&[Primary, Secondary, Secondary, Secondary])
}
