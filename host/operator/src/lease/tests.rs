//! The Lease, with an API server of scripted answers.
use super::*;
use crate::mock::{self, Reply};
use http::Response;
use kube::client::Body;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use tower::Service;

const NOW: Duration = Duration::ZERO;

// A51: a Lease is free after 15 s of silence by our own measurement.
#[test]
fn a_lease_is_taken_when_free_ours_or_silent() {
    assert_eq!(judge(None, "a", NOW, DURATION, false), Move::Take { changes: true });
    assert_eq!(judge(Some(""), "a", NOW, DURATION, false), Move::Take { changes: true });
    assert_eq!(judge(Some("a"), "a", NOW, DURATION, false), Move::Take { changes: false });
    assert_eq!(judge(Some("b"), "a", DURATION - Duration::from_millis(1), DURATION, false), Move::Leave("b".into()));
    assert_eq!(judge(Some("b"), "a", DURATION, DURATION, false), Move::Take { changes: true });
    assert_eq!(judge(Some("b"), "a", NOW, DURATION, true), Move::Take { changes: true });
}

// A51: a holder that missed a renewal and whose pod has ended is not waited for.
#[tokio::test(start_paused = true)]
async fn a_holder_that_has_ended_is_not_waited_for() {
    for (seconds, takes) in [(0, false), (3, false), (4, true)] {
        let (client, asked) = mock::server(|_, path, _| {
            if path.contains("/pods/") {
                return mock::refusal(404, "NotFound", "no such pod");
            }
            let spec = json!({"holderIdentity": "b", "leaseDurationSeconds": 15});
            let notes = json!({"tanist.dev/holder-pod": "b uid-of-b"});
            Some((200, json!({"metadata": {"name": "l", "resourceVersion": "1", "annotations": notes}, "spec": spec})))
        });
        let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default()).in_pod(Some("uid-of-a".into()));
        let since = Instant::now().checked_sub(Duration::from_secs(seconds));
        ours.seen = since.map(|since| ("1".into(), since));
        let attempt = ours.attempt().await;
        assert_eq!(matches!(attempt, Ok(Attempt::Held)), takes, "after {seconds} s: {attempt:?}");
        let all = asked.lock().map(|asked| asked.clone()).unwrap_or_default();
        let written = all.iter().find(|(method, _, _)| method == "PUT").map(|(_, _, body)| body);
        let note = written.and_then(|body| body.pointer("/metadata/annotations/tanist.dev~1holder-pod")?.as_str());
        assert_eq!(note, takes.then_some("a uid-of-a"));
    }
}

// S28: a Lease is free by how long we have seen it unchanged, whatever the wall clocks of its holder and of ours show.
#[tokio::test]
async fn no_clock_but_our_own_steady_one_frees_a_lease() {
    for renewed in ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
        let client = mock::client("ns", move |request| {
            assert_eq!(request.method(), http::Method::GET, "it is not taken");
            let spec = json!({"holderIdentity": "b", "leaseDurationSeconds": 15, "renewTime": renewed});
            let lease = json!({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": spec});
            Reply::Response(Box::new(Response::new(Body::from(lease.to_string().into_bytes()))))
        });
        let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default());
        for _ in 0..2 {
            assert!(matches!(ours.attempt().await, Ok(Attempt::Other(holder)) if holder == "b"));
        }
    }
}

// docs/rules.md, "Over": a process that takes the Lease goes on from what its predecessor left, also one of the same name; a holder goes on from
// what it saw itself.
#[tokio::test]
async fn who_takes_the_lease_goes_on_from_what_it_says() {
    for holder in ["", "a"] {
        let (client, asked) = mock::server(move |_, _, _| {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15});
            let notes = json!({"tanist.dev/pods-seen": "{\"shop\":\"7\"}"});
            Some((200, json!({"metadata": {"name": "l", "resourceVersion": "1", "annotations": notes}, "spec": spec})))
        });
        let pods = Arc::new(Seen::default());
        pods.note("shop", Some("90"));
        let mut ours = Leadership::new(client, "ns", "l", "a", pods.clone());
        assert!(matches!(ours.attempt().await, Ok(Attempt::Held)));
        pods.inherit(Some(r#"{"shop": "91"}"#), std::time::Instant::now());
        assert!(matches!(ours.attempt().await, Ok(Attempt::Held)));
        let all = asked.lock().map(|asked| asked.clone()).unwrap_or_default();
        let written = all.iter().filter(|(method, _, _)| method == "PUT");
        let versions: Vec<_> =
            written.filter_map(|(_, _, body)| body.pointer("/metadata/annotations/tanist.dev~1pods-seen")).collect();
        assert_eq!(versions, [r#"{"shop":"7"}"#, r#"{"shop":"91"}"#], "the holder was {holder:?}");
    }
}

#[test]
fn a_holder_steps_down_before_anybody_may_take_over() {
    assert!(RENEW + RETRY < DURATION);
}

/// An API server that takes that long for each request, with a Lease that nobody else writes. What it was asked is counted.
fn slow(takes: impl Fn(u32) -> Duration + Send + Sync + 'static) -> (Client, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let (count, takes) = (asked.clone(), Arc::new(takes));
    let answers = mock::service(|_| {
        let lease = json!({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"holderIdentity": "a"}});
        Reply::Response(Box::new(Response::new(Body::from(lease.to_string().into_bytes()))))
    });
    let service = tower::service_fn(move |request| {
        let (mut answers, takes, number) = (answers.clone(), takes.clone(), count.fetch_add(1, Ordering::Relaxed));
        async move {
            tokio::time::sleep(takes(number)).await;
            answers.call(request).await
        }
    });
    (Client::new(service, "ns"), asked)
}

// A51: an API server that needs seconds for each request costs no leadership, and a holder asks once for each renewal.
#[tokio::test(start_paused = true)]
async fn a_slow_api_server_costs_no_leadership() {
    for (millis, renewals) in [(100, 30), (3000, 20), (4500, 13)] {
        // The Lease is taken quickly: a read and a write of 4.5 s each leave no time for the first renewal.
        let (client, asked) = slow(move |number| Duration::from_millis(if number < 2 { 100 } else { millis }));
        let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default());
        ours.acquire().await;
        let before = asked.load(Ordering::Relaxed);
        let held = tokio::time::timeout(Duration::from_secs(60), ours.hold()).await;
        assert!(held.is_err(), "{millis} ms: {held:?}");
        let after = asked.load(Ordering::Relaxed) - before;
        assert!(after.abs_diff(renewals) <= 1, "{after} requests in a minute, {millis} ms each");
    }
}

// A51: a holder steps down 10 s after it began the last renewal that went well: others measure from a write that is later.
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_not_answered_steps_down_in_time() {
    const NEVER: Duration = Duration::from_secs(3600);
    let (client, _) = slow(|number| if number < 2 { Duration::from_secs(4) } else { NEVER });
    let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default());
    let began = Instant::now();
    // A read and a write.
    ours.acquire().await;
    assert_eq!(ours.hold().await, "the Lease could not be renewed");
    assert_eq!(began.elapsed(), RENEW);
}

// A51: a write of our own that was late makes the next one fail; that is no loss.
#[tokio::test(start_paused = true)]
async fn a_late_renewal_of_our_own_is_no_loss() {
    let mut writes = 0;
    let (client, _) = mock::server(move |method, _, _| {
        writes += u32::from(method == "PUT");
        // The first renewal is never answered, and takes effect between the read and the write after it.
        match (method, writes) {
            ("PUT", 2) => None,
            ("PUT", 3) => mock::refusal(409, "Conflict", "changed"),
            _ => {
                Some((200, json!({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"holderIdentity": "a"}})))
            }
        }
    });
    let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default());
    ours.acquire().await;
    let held = tokio::time::timeout(Duration::from_secs(60), ours.hold()).await;
    assert!(held.is_err(), "{held:?}");
}

// A51: a Lease that somebody else changed or deleted is read again before the holder judges.
#[tokio::test]
async fn a_renewal_that_is_refused_reads_the_lease_again() {
    for (code, holder, keeps) in [(409, "a", true), (409, "b", false), (404, "a", true)] {
        let mut writes = 0;
        let (client, asked) = mock::server(move |method, _, _| {
            if method == "PUT" {
                writes += 1;
            }
            if method == "PUT" && writes == 2 {
                return mock::refusal(code, "Conflict", "changed");
            }
            let holder = if writes < 2 { "a" } else { holder };
            let lease = json!({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"holderIdentity": holder}});
            Some((200, lease))
        });
        let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default());
        assert!(matches!(ours.attempt().await, Ok(Attempt::Held)));
        let second = ours.attempt().await;
        assert_eq!(matches!(second, Ok(Attempt::Held)), keeps, "{code} {holder}: {second:?}");
        let all = asked.lock().map(|asked| asked.clone()).unwrap_or_default();
        let methods: Vec<_> = all.iter().map(|(method, _, _)| method.as_str()).collect();
        let expected: &[&str] =
            if keeps { &["GET", "PUT", "PUT", "GET", "PUT"] } else { &["GET", "PUT", "PUT", "GET"] };
        assert_eq!(methods, expected, "{code} {holder}");
    }
}

/// An API server that answers so many requests about a Lease of that holder, and then none any more.
fn falls_silent(after: u32, holder: &'static str) -> Client {
    let mut asked = 0;
    let answers = move |_: &str, _: &str, _: &serde_json::Value| {
        asked += 1;
        let lease = json!({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": {"holderIdentity": holder}});
        (asked <= after).then_some((200, lease))
    };
    mock::server(answers).0
}

// A51: an attempt that is not answered ends by itself, and the next one takes the Lease.
#[tokio::test(start_paused = true)]
async fn who_is_not_answered_asks_again() {
    let (client, asked) = slow(|number| if number == 0 { Duration::from_secs(3600) } else { Duration::ZERO });
    let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default());
    let began = Instant::now();
    ours.acquire().await;
    assert_eq!((began.elapsed(), asked.load(Ordering::Relaxed)), (RENEW + RETRY, 3));
}

// A51: a process that ends does not wait for an API server that is silent, neither for the read nor for the write.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_answered_does_not_hold_up_the_end() {
    for answered in [0, 1] {
        let ours = Leadership::new(falls_silent(answered, "a"), "ns", "l", "a", Arc::default());
        let began = Instant::now();
        ours.release().await;
        assert_eq!(began.elapsed(), RELEASE, "after {answered} answers");
    }
    let others = Leadership::new(falls_silent(1, "b"), "ns", "l", "a", Arc::default());
    let began = Instant::now();
    others.release().await;
    assert_eq!(began.elapsed(), Duration::ZERO, "it is not ours to give up");
}
