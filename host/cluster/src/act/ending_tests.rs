//! What ends a plan, and how often a command looks before it starts.
use super::*;
use crate::clock::Clock;
use std::sync::atomic::Ordering;

/// A plan that places db-1, and then leads clients away from db-0, which needs no record.
fn place_and_route(s: &Snapshot) -> Plan {
    let mut plan = place(s);
    let (member, pod_uid) = ("db-0".into(), "pod-0".into());
    plan.actions.push(Action::Route { member, pod_uid, role: None, ready: false, version: None });
    plan
}

// S6, S30: a process that loses the race for the record, or read an older one, starts nothing.
#[tokio::test]
async fn a_conflict_on_the_record_starts_nothing() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    stub.answer(Method::PUT, "/status", Answer::Fail(409, "Conflict"));
    let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
    assert!(matches!(&outcome.errors[..], [Error::Outdated]) && !outcome.recorded);
    let seen = until_settled(&ctx, &stub).await;
    assert!(!seen.iter().any(|s| executes(s, "place-1")), "{seen:?}");
}

// S1: the second look has to see the same version of the group as the first one.
#[tokio::test]
async fn a_group_that_changed_before_the_second_look_starts_nothing() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    stub.change(GROUP, |group| group["metadata"]["generation"] = 2.into());
    let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
    assert!(matches!(&outcome.errors[..], [Error::Outdated]));
    assert!(stub.written().is_empty());
}

// S5: a process that lost the race for the record decided on what is over: nothing else of its plan is done, also not what needs no record.
#[tokio::test]
async fn a_conflict_on_the_record_ends_the_plan() {
    for has_lost in [false, true] {
        let stub = Stub::new();
        let ctx = stub.context();
        let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
        if has_lost {
            stub.answer(Method::PUT, "/status", Answer::Fail(409, "Conflict"));
        }
        let plan = place_and_route(&observed.snapshot);
        let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
        assert_eq!(matches!(&outcome.errors[..], [Error::Outdated]), has_lost, "{:?}", outcome.errors);
        let seen = until_settled(&ctx, &stub).await;
        let routed = seen.iter().any(|s| s.method == Method::PATCH && s.path.contains("/pods/db-0"));
        assert_eq!(routed, !has_lost, "{seen:?}");
    }
}

// docs/rules.md, "Commands": after SIGTERM the operator starts nothing new.
#[tokio::test]
async fn nothing_is_begun_while_the_operator_ends() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    ctx.closing.store(true, Ordering::SeqCst);
    let plan = place_and_route(&observed.snapshot);
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
    assert!(matches!(&outcome.errors[..], [Error::Closing]), "{:?}", outcome.errors);
    assert!(outcome.done.is_empty() && !outcome.recorded, "{:?}", outcome.done);
    let seen = until_settled(&ctx, &stub).await;
    assert!(seen.is_empty(), "{seen:?}");
}

// docs/decisions/0008: the second look for the first command is taken before any write. One that refused nothing is the command's: it is not taken once more.
#[tokio::test]
async fn a_command_starts_on_the_look_that_was_taken_for_it() {
    let stub = Stub::new();
    let mut ctx = stub.context();
    // By a clock that stands still no look gets too old, however busy the machine is.
    let still = Clock::new(ctx.clock.now(), || Duration::ZERO);
    Arc::get_mut(&mut ctx).unwrap().clock = Arc::new(still);
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
    assert!(outcome.errors.is_empty() && outcome.recorded, "{:?}", outcome.errors);
    let seen = stub.seen();
    let looks: Vec<_> = seen.iter().filter(|s| s.path == GROUP || s.method == Method::PUT).map(|s| &s.method).collect();
    assert_eq!(looks, [Method::GET, Method::PUT], "and not once more after the record: {seen:?}");
}

// Deadlines (docs/decisions/0012): a command waits for its slot before the second look, which would be old by then.
#[tokio::test]
async fn who_waits_for_a_slot_has_not_looked_yet() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let mut held = Vec::new();
    while let Ok(slot) = ctx.commands.take("group", Duration::ZERO).await {
        held.push(slot);
    }
    stub.seen();
    let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
    assert!(matches!(&outcome.errors[..], [Error::NoSlot(..)]), "{:?}", outcome.errors);
    let seen = stub.seen();
    assert!(!seen.iter().any(|s| s.method == Method::GET && s.path.ends_with("/pods")), "{seen:?}");
}

/// A clock by which the first write takes 1.5 s. `then` is done meanwhile.
pub(super) fn slow_write(
    stub: &Stub,
    ctx: &mut Arc<Context>,
    path: &str,
    then: impl Fn(&Stub) + Send + Sync + 'static,
) {
    let (before, path, stub) = (stub.version(path), path.to_owned(), stub.clone());
    let done = std::sync::atomic::AtomicBool::new(false);
    let passed = move || {
        if stub.version(&path) == before {
            return Duration::ZERO;
        }
        if !done.swap(true, std::sync::atomic::Ordering::SeqCst) {
            then(&stub);
        }
        Duration::from_millis(1500)
    };
    let slow = Clock::new(ctx.clock.now(), passed);
    Arc::get_mut(ctx).unwrap().clock = Arc::new(slow);
}

// S6, docs/decisions/0008: while the record is written the world goes on. A look that is older than a second by then is taken once more: nothing starts in a pod that is replaced meanwhile, and the token is void.
#[tokio::test]
async fn a_slow_record_is_followed_by_another_look() {
    for is_replaced in [false, true] {
        let stub = Stub::new();
        let mut ctx = stub.context();
        let then = move |stub: &Stub| {
            if is_replaced {
                stub.replace(&pod(1), "another");
            }
        };
        slow_write(&stub, &mut ctx, GROUP, then);
        let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
        let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
        let seen = until_settled(&ctx, &stub).await;
        let wrote = seen.iter().position(|s| s.method == Method::PUT).unwrap();
        let looks = |seen: &[Seen]| seen.iter().filter(|s| s.method == Method::GET && s.path == GROUP).count();
        assert_eq!((looks(&seen[..wrote]), looks(&seen[wrote..])), (1, 1), "{seen:?}");
        let executed = seen.iter().any(|s| executes(s, "exec") && s.query.contains("command=place-1"));
        assert_eq!(executed, !is_replaced, "{:?}", outcome.errors);
        if is_replaced {
            assert!(matches!(&outcome.errors[..], [Error::Recheck(..)]), "{:?}", outcome.errors);
            assert!(matches!(evidence(&ctx, "place-1"), Some(Evidence::NotStarted(_))));
        }
    }
}
