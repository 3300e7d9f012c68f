//! The ConfigMap of the cluster state (D6): when it is written, by which fence, and whose it never is.
use super::*;
use tanist_core::state::Stored;

const STATE: &str = "/api/v1/namespaces/ns/configmaps/db-cluster-state";

/// The test group, which wants its members named.
fn named() -> Stub {
    let stub = Stub::new();
    stub.change(GROUP, |group| {
        group["spec"]["clusterState"] = json!({"data": [
            {"name": "MEMBERS", "each": "$(NAME)", "separator": " "}, {"name": "STATE", "value": "$(STATE)"}
        ]});
    });
    stub
}

fn data(stub: &Stub) -> Value {
    stub.get(STATE).unwrap_or_default()["data"].clone()
}

fn writes_state(seen: &Seen) -> bool {
    seen.method == Method::PATCH && seen.path == STATE
}

/// The plan of the core for a group whose second member is stopped.
async fn placing(stub: &Stub, ctx: &Arc<Context>) -> (Observed, Plan) {
    let mut observed = stub.observe(ctx, &[Primary, Stopped]).await;
    observed.snapshot.objects.clear();
    let mut plan = place(&observed.snapshot);
    let Action::Run { needs_state, .. } = &mut plan.actions[0] else { panic!("no command") };
    *needs_state = true;
    let mut s = observed.snapshot.clone();
    s.record.clone_from(&plan.record);
    tanist_core::steps::state::step(&s, &Silent, &mut plan);
    (observed, plan)
}

// D6: the ConfigMap names the member before its command starts, and belongs to the group.
#[tokio::test]
async fn the_config_map_is_written_before_the_command() {
    let stub = named();
    let ctx = stub.context();
    let (observed, plan) = placing(&stub, &ctx).await;
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
    assert!(outcome.errors.is_empty() && outcome.recorded, "{:?}", outcome.errors);
    let seen = until_settled(&ctx, &stub).await;
    let at = |what: &dyn Fn(&Seen) -> bool| seen.iter().position(what).unwrap();
    let last = seen.iter().rposition(writes_state).unwrap();
    assert!(last < at(&|s| s.method == Method::PUT) && last < at(&|s| executes(s, "place-1")), "{seen:?}");
    assert_eq!(data(&stub), json!({"MEMBERS": "db-0 db-1", "STATE": "existing"}));
    let metadata = stub.get(STATE).unwrap()["metadata"].clone();
    assert_eq!(metadata["ownerReferences"][0]["uid"], "group");
    assert_eq!(metadata["annotations"]["tanist.dev/state-keys"], "MEMBERS STATE");
    let s = stub.observe(&ctx, &[Primary, Secondary]).await.snapshot;
    let Stored::Own { version, data, .. } = &s.cluster_state else { panic!("{:?}", s.cluster_state) };
    assert_eq!((version.as_str(), data["MEMBERS"].as_str()), (stub.version(STATE).as_str(), "db-0 db-1"));
}

// D6: a ConfigMap that cannot be written, or was changed since it was read, starts nobody.
#[tokio::test]
async fn a_refused_config_map_starts_nobody() {
    for answer in [Answer::Fail(403, "Forbidden"), Answer::Fail(409, "Conflict")] {
        let stub = named();
        let ctx = stub.context();
        let (observed, plan) = placing(&stub, &ctx).await;
        stub.answer(Method::PATCH, "db-cluster-state", answer.clone());
        let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
        let said = outcome.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(said.contains("ConfigMap db-cluster-state") && !outcome.recorded, "{said}");
        let seen = until_settled(&ctx, &stub).await;
        assert!(!seen.iter().any(|s| executes(s, "place-1")), "{seen:?}");
        assert!(stub.get(STATE).is_none());
    }
}

// D6: what belongs to somebody else is not written, and neither is the copy of a policy; what cannot be read is not guessed.
#[tokio::test]
async fn a_config_map_of_somebody_else_is_left_alone() {
    let ours = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true}]);
    for object in [
        json!({"metadata": {"uid": "x"}, "data": {"MEMBERS": "mine"}}),
        json!({"metadata": {"uid": "x", "ownerReferences": ours}, "immutable": true, "data": {"MEMBERS": "mine"}}),
    ] {
        let stub = named();
        stub.set_object(STATE, object);
        let ctx = stub.context();
        let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
        assert_eq!(observed.snapshot.cluster_state, Stored::Foreign);
        let plan = decide(&observed.snapshot, &Silent);
        carry_out(&ctx, &observed, &plan, &[Primary, Secondary]).await;
        assert!(!stub.seen().iter().any(writes_state));
        assert_eq!(data(&stub), json!({"MEMBERS": "mine"}));
    }
    let stub = named();
    let ctx = stub.context();
    stub.observe(&ctx, &[Primary, Secondary]).await;
    stub.answer(Method::GET, "db-cluster-state", Answer::Fail(403, "Forbidden"));
    let seen: tanist_api::ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    let s = observe::observe(&ctx, &seen, Ask::Recent, None).await.unwrap().snapshot;
    assert!(
        matches!(&s.cluster_state, Stored::Unknown(why) if why.contains("forbidden (403)")),
        "{:?}",
        s.cluster_state
    );
}

// D6: nobody who runs waits for it: it is written beside the round, with the version that was seen, and a late write changes nothing.
#[tokio::test]
async fn a_late_cluster_state_changes_nothing() {
    let stub = named();
    let ctx = stub.context();
    let write = async |version: Option<String>, members: &str, awaited| {
        let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
        let mut plan = Plan::new(observed.snapshot.record.clone());
        let data = [("MEMBERS".to_owned(), members.to_owned())].into();
        plan.actions.push(Action::WriteState { name: "db-cluster-state".into(), data, version, awaited });
        let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Secondary]).await;
        for _ in 0..200 {
            if ctx.hints.with_group("group", |h| h.writing.is_empty()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        outcome.errors
    };
    assert!(write(None, "a", false).await.is_empty());
    let seen = stub.version(STATE);
    assert!(write(Some(seen.clone()), "a b", true).await.is_empty());
    assert!(matches!(&write(Some(seen.clone()), "a", true).await[..], [Error::Overtaken(_)]));
    write(Some(seen), "a", false).await;
    assert_eq!(data(&stub)["MEMBERS"], "a b");
}

// D6 (simulator, seed 13618858): while a write that nobody waited for is under way, what the ConfigMap says may be over in a moment.
#[tokio::test]
async fn what_is_being_written_is_not_read() {
    let stub = named();
    let ctx = stub.context();
    let key = crate::hints::write_key("ConfigMap", "db-cluster-state");
    ctx.hints.with_group("group", |hints| hints.writing.insert(key.clone()));
    let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
    assert_eq!(observed.snapshot.cluster_state, Stored::Writing);
    ctx.hints.with_group("group", |hints| hints.writing.remove(&key));
    let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
    assert_eq!(observed.snapshot.cluster_state, Stored::Absent);
}

// D6: a runner that did not say that it can set an environment is given none, for it would not understand the option.
#[tokio::test]
async fn only_a_runner_that_says_so_is_given_an_environment() {
    let stub = named();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
    let s = &observed.snapshot;
    let env = tanist_core::state::environment(s);
    assert_eq!(env, ["MEMBERS=db-0 db-1", "STATE=existing"]);
    let given = |runner| {
        let target = observe::target(&s.group, &s.members[1]).unwrap();
        crate::member::Target { runner, ..target }.with_env(&ctx, env.clone()).env
    };
    assert_eq!(given(true), [""; 0]);
    let pod = s.members[1].pod.clone().unwrap();
    let said =
        tanist_core::freshness::StatusAnswer { takes_env: true, ..tanist_core::freshness::StatusAnswer::of(Secondary) };
    let now = ctx.clock.moment();
    ctx.hints.with_group("group", |h| h.readings.remember_status(&pod, "db", (now, now), said));
    assert_eq!((given(true), given(false)), (env.clone(), Vec::new()));
}
