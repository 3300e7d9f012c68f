//! The cluster state: a ConfigMap that names the members before they start, and the environment of commands.
use super::super::support::policies::Natural;
use super::super::support::world::{World, command};
use super::super::support::{db, setting};
use super::checks::intent;
use super::membership::agreeing;
use super::resize::growing;
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::order::{Missing, spoils};
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Intent, Listed, Verb};
use tanist_core::snapshot::Snapshot;
use tanist_core::state::{self, Data, Entry, Stored, Template};

fn entry(key: &str, text: &str, each: bool) -> Entry {
    Entry { key: key.into(), text: text.into(), each, separator: ",".into() }
}

/// What etcd wants.
fn template() -> Template {
    let entries = vec![
        entry("CLUSTER", "$(NAME)=http://$(ADDRESS):2380", true),
        entry("STATE", "$(STATE)", false),
        entry("TOKEN", "$(GROUP)-$(UID)", false),
    ];
    Template { name: "db-state".into(), entries }
}

fn peers(ordinals: &[u32]) -> String {
    let peer = |ordinal: &u32| format!("db-{ordinal}=http://db-{ordinal}.db.ns.svc.cluster.local:2380");
    ordinals.iter().map(peer).collect::<Vec<_>>().join(",")
}

fn data(ordinals: &[u32], state: &str) -> Data {
    let pairs = [("CLUSTER", peers(ordinals)), ("STATE", state.to_owned()), ("TOKEN", "db-group".to_owned())];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn own(data: Data) -> Stored {
    Stored::Own { version: "7".into(), keys: state::keys(&data), data }
}

/// Where the plan writes what, and whether a start waits for it.
fn written(plan: &Plan) -> Option<(usize, Data, bool)> {
    plan.actions.iter().enumerate().find_map(|(at, action)| match action {
        Action::WriteState { data, awaited, .. } => Some((at, data.clone(), *awaited)),
        _ => None,
    })
}

/// Where the plan starts which member, and with what environment.
fn runs(plan: &Plan) -> Option<(usize, Intent, Vec<String>, bool)> {
    plan.actions.iter().enumerate().find_map(|(at, action)| match action {
        Action::Run { intent, env, needs_state, .. } => Some((at, intent.clone(), env.clone(), *needs_state)),
        _ => None,
    })
}

fn blocked(plan: &Plan) -> Vec<&str> {
    plan.waits.iter().filter(|w| w.reason == Reason::ClusterStateBlocked).map(|w| w.message.as_str()).collect()
}

// D6: a group forms. Each member is named in the ConfigMap before it starts, and its command has the same values; `new` is said until the first one serves.
#[test]
fn a_member_is_named_before_it_starts() {
    let mut world = World::new(3, 1);
    world.group.commands.secondary = Some(command("secondary"));
    world.group.cluster_state = Some(template());
    let mut seen = Vec::new();
    for _ in 0..60 {
        let (_, plan, _) = world.round(&Natural);
        if let Some((at, intent, env, needs_state)) = runs(&plan) {
            let (first, data, awaited) = written(&plan).unwrap_or_else(|| panic!("{:#?}", plan.actions));
            assert!(first < at && awaited && needs_state, "{:#?}", plan.actions);
            assert_eq!(env, state::variables(&data));
            seen.push((intent.verb, data));
        }
        world.now += 1;
    }
    let expected = [
        (Verb::Seed, data(&[0], "new")),
        (Verb::Place, data(&[0, 1], "existing")),
        (Verb::Place, data(&[0, 1, 2], "existing")),
    ];
    assert_eq!(seen, expected);
    assert!(world.cluster_state.has(&data(&[0, 1, 2], "existing")));
    let idle = decide(&world.observe(), &Natural);
    assert_eq!(written(&idle), None, "it is as it should be");
    // One that stops is named no longer, and nobody waits for that.
    world.serve(2, Role::Stopped);
    let mut s = world.observe();
    s.record.member_mut(&db(2)).retry_at = Some(s.now + 60);
    let plan = decide(&s, &Natural);
    let (_, data_now, awaited) = written(&plan).unwrap_or_else(|| panic!("{:#?}", plan.actions));
    assert!(runs(&plan).is_none() && !awaited && data_now == data(&[0, 1], "existing"), "{:#?}", plan.actions);
}

// D6: where members agree, those that the application lists are named, whether they run or not, and whoever is started.
#[test]
fn members_that_agree_are_named_as_they_are_listed() {
    let mut s = growing(3);
    s.group.cluster_state = Some(template());
    let ordinals =
        |s: &Snapshot| -> Vec<String> { state::members(s, &s.record, None).iter().map(ToString::to_string).collect() };
    assert_eq!(ordinals(&s), ["db-0", "db-1", "db-2"]);
    s.members[1].reading.role = Role::Stopped;
    assert_eq!(ordinals(&s), ["db-0", "db-1", "db-2"]);
    let listed = |ordinal| Listed {
        id: format!("id{ordinal}"),
        member: Some(db(ordinal)),
        started: false,
        voter: true,
        volume: None,
    };
    s.record.membership.as_mut().unwrap().members.push(listed(10));
    s.record.membership.as_mut().unwrap().members.push(Listed { member: None, ..listed(11) });
    s.record.intents.push(intent(&s, Verb::Join, 3));
    assert_eq!(
        ordinals(&s),
        ["db-0", "db-1", "db-2", "db-3", "db-10"],
        "by number; who is none of the group has no name"
    );
    s.record.intents.clear();
    s.record.intents.push(intent(&s, Verb::Demote, 3));
    assert_eq!(ordinals(&s), ["db-0", "db-1", "db-2", "db-10"], "whoever is stopped is not started");
    let mut template = template();
    template.entries = vec![entry("IDS", "$(ORDINAL):$(ID)", true), entry("COUNT", "$(COUNT) of $(NAMESPACE)", false)];
    template.entries.push(Entry { separator: " ".into(), ..entry("ALL", "$(NAMES) $(ADDRESSES)", false) });
    s.record.membership.as_mut().unwrap().members.retain(|m| m.member == Some(db(10)));
    let data = state::render(&s, &template, &s.record, Some(&db(3))).unwrap();
    assert_eq!((data["IDS"].as_str(), data["COUNT"].as_str()), ("3:,10:id10", "2 of ns"));
    let addresses = "db-3.db.ns.svc.cluster.local db-10.db.ns.svc.cluster.local";
    assert_eq!(data["ALL"], format!("db-3 db-10 {addresses}"));
    // Whoever has a list was formed, also when nobody remembers the first start.
    s.record.ever_seeded = None;
    template.entries = vec![entry("STATE", "$(STATE)", false)];
    assert_eq!(state::render(&s, &template, &s.record, None).unwrap()["STATE"], "existing");
    // Whoever goes on alone has no peers.
    s.record.intents.push(intent(&s, Verb::Recover, 1));
    assert_eq!(ordinals(&s), ["db-1"]);
}

// D6: one that was in its role and does not answer goes on to be named; one that was just made does not.
#[test]
fn a_member_that_does_not_answer_goes_on_to_be_named() {
    let mut world = agreeing(3);
    world.group.commands.membership = None;
    let mut s = world.observe();
    let named = |s: &Snapshot| state::members(s, &s.record, None).len();
    assert_eq!(named(&s), 3);
    s.members[2].reading.role = Role::Unknown;
    assert_eq!(named(&s), 3);
    let pod = s.members[2].pod.as_mut().unwrap();
    pod.phase = Phase::Pending;
    assert_eq!(named(&s), 2);
    s.members[2].pod.as_mut().unwrap().phase = Phase::Unreachable;
    assert_eq!(named(&s), 3);
    s.record.member_mut(&db(2)).term = None;
    assert_eq!(named(&s), 2);
    for (role, count) in [(Role::Starting, 3), (Role::Failed, 2), (Role::Stopped, 2)] {
        s.members[2].reading.role = role;
        assert_eq!(named(&s), count, "{role:?}");
    }
}

// D6: while the ConfigMap cannot say who starts, nobody is started, and that is said. A secondary that takes over runs already.
#[test]
fn a_start_waits_for_the_config_map_and_a_takeover_does_not() {
    let mut world = World::new(2, 1);
    world.group.commands.secondary = Some(command("secondary"));
    world.group.cluster_state = Some(template());
    world.round(&Natural);
    world.now += 1;
    let s = world.observe();
    let tried = |stored: Stored, change: &dyn Fn(&mut Template)| {
        let mut s = Snapshot { cluster_state: stored, ..s.clone() };
        s.group.cluster_state.iter_mut().for_each(change);
        decide(&s, &Natural)
    };
    let as_it_is = |_: &mut Template| {};
    assert_eq!(runs(&tried(Stored::Absent, &as_it_is)).map(|run| run.1.verb), Some(Verb::Seed));
    let long = |template: &mut Template| template.entries[1].text = "x".repeat(limits::STATE_BYTES);
    for (plan, why) in [
        (tried(Stored::Foreign, &as_it_is), "ConfigMap db-state exists and is not the cluster state of this group"),
        (tried(Stored::Unknown("forbidden (403)".into()), &as_it_is), "cannot be read: forbidden (403)"),
        (tried(Stored::Writing, &as_it_is), "ConfigMap db-state, which has the cluster state, is being written"),
        (tried(Stored::Absent, &long), "more than 32768 bytes with 1 members"),
    ] {
        assert!(runs(&plan).is_none() && written(&plan).is_none(), "{why}: {:#?}", plan.actions);
        assert!(
            blocked(&plan).iter().any(|said| said.starts_with("primary on db-0 waits: ") && said.contains(why)),
            "{:#?}",
            plan.waits
        );
        assert!(plan.record.intents.is_empty());
    }

    // A running secondary takes over whatever the ConfigMap is.
    for ordinal in [0, 1] {
        world.remember(ordinal, 1, "5");
    }
    world.serve(1, Role::Secondary);
    world.record.member_mut(&db(0)).primary_term = Some(1);
    world.cluster_state = Stored::Foreign;
    world.round(&Natural);
    let plan = decide(&world.observe(), &Natural);
    let (_, intent, env, needs_state) = runs(&plan).unwrap_or_else(|| panic!("{:#?}", plan.waits));
    assert_eq!((intent.verb, needs_state, written(&plan)), (Verb::Failover, false, None));
    assert!(env.contains(&"STATE=existing".to_owned()), "{env:?}");
    assert!(!blocked(&plan).is_empty());
}

// D6: it is written when a value or the keys differ, with the version that was seen; a key of somebody else is left alone.
#[test]
fn it_is_written_only_when_it_differs() {
    let mut world = agreeing(3);
    world.group.cluster_state = Some(template());
    let s = world.observe();
    let wanted = data(&[0, 1, 2], "existing");
    let plan = |stored| decide(&Snapshot { cluster_state: stored, ..s.clone() }, &Natural);
    assert_eq!(written(&plan(own(wanted.clone()))), None);
    let with = |key: &str, value: &str| -> Data {
        wanted.clone().into_iter().chain([(key.to_owned(), value.to_owned())]).collect()
    };
    let foreign_key = Stored::Own { version: "7".into(), keys: state::keys(&wanted), data: with("OTHER", "x") };
    assert_eq!(written(&plan(foreign_key)), None);
    for stored in [own(with("OTHER", "x")), own(with("STATE", "new")), own(Data::new())] {
        let plan = plan(stored);
        let write = plan.actions.iter().find(|a| matches!(a, Action::WriteState { .. }));
        let version = Some("7".to_owned());
        let expected = Action::WriteState { name: "db-state".into(), data: wanted.clone(), version, awaited: false };
        assert_eq!(write, Some(&expected));
    }
    // Nobody starts: the write that is under way is not waited for.
    let writing = plan(Stored::Writing);
    assert_eq!((written(&writing), blocked(&writing).len()), (None, 0));
    let mut none = Snapshot { cluster_state: own(Data::new()), ..s.clone() };
    none.group.cluster_state = None;
    assert_eq!(written(&decide(&none, &Natural)), None, "nobody asked for it");
}

// D6: arguments get the values, too, for members without a runner that takes an environment.
#[test]
fn an_argument_is_replaced_by_the_value_of_its_key() {
    let mut s = growing(3);
    s.group.cluster_state = Some(template());
    let add = &mut s.group.commands.membership.as_mut().unwrap().add;
    add.exec = ["add", "$(NAME)", "$(STATE:STATE)", "$(STATE:NONE)", "x$(STATE:STATE)"].map(str::to_owned).to_vec();
    let plan = decide(&s, &Natural);
    let run = plan.actions.iter().find_map(|a| {
        if let Action::Run { argv, env, needs_state, .. } = a { Some((argv, env, needs_state)) } else { None }
    });
    let (argv, env, needs_state) = run.unwrap_or_else(|| panic!("{:#?}", plan.waits));
    assert_eq!(argv, &["add", "db-3", "existing", "$(STATE:NONE)", "x$(STATE:STATE)"]);
    assert!(env.contains(&format!("CLUSTER={}", peers(&[0, 1, 2]))) && !needs_state, "{env:?}");
    assert_eq!(&state::environment(&s), env, "what only asks is given the same");
    // Without the value there is nothing to put in its place; a command that has no such argument goes on.
    s.group.cluster_state.iter_mut().for_each(|template| template.entries[2].text = "x".repeat(limits::STATE_BYTES));
    let plan = decide(&s, &Natural);
    assert_eq!((runs(&plan), plan.record.intents.len()), (None, 0), "{:#?}", plan.actions);
    assert!(blocked(&plan).iter().any(|said| said.starts_with("memberAdd of db-3 waits: ")), "{:#?}", plan.waits);
    let add = &mut s.group.commands.membership.as_mut().unwrap().add;
    add.exec.retain(|argument| argument != "$(STATE:STATE)");
    assert!(runs(&decide(&s, &Natural)).is_some());
}

// D6: a takeover whose command has a value as an argument waits for that value, and for nothing else.
#[test]
fn a_takeover_waits_only_for_a_value_that_it_is_given() {
    let mut world = World::new(2, 1);
    world.group.commands.secondary = Some(command("secondary"));
    world.round(&Natural);
    world.now += 1;
    for ordinal in [0, 1] {
        world.remember(ordinal, 1, "5");
    }
    world.serve(1, Role::Secondary);
    world.record.member_mut(&db(0)).primary_term = Some(1);
    world.cluster_state = Stored::Foreign;
    let tried = |world: &mut World, text: &str, argument: &str| {
        let mut template = template();
        template.entries[1].text = text.to_owned();
        world.group.cluster_state = Some(template);
        world.group.commands.primary.exec = vec!["primary".into(), argument.into()];
        world.group.commands.promote = None;
        let mut world = world.clone();
        let mut plans = (0..4).map(|_| world.round(&Natural).1);
        let is_blocked = |plan: &Plan| blocked(plan).iter().any(|said| said.contains("on db-1 waits"));
        let plan = plans.find(|plan| runs(plan).is_some() || is_blocked(plan)).unwrap();
        (runs(&plan).map(|run| run.1.verb), is_blocked(&plan))
    };
    let long = "x".repeat(limits::STATE_BYTES);
    assert_eq!(tried(&mut world, "$(STATE)", "$(STATE:STATE)"), (Some(Verb::Failover), false));
    assert_eq!(tried(&mut world, &long, "$(STATE:OTHER)"), (Some(Verb::Failover), false), "that is no key");
    assert_eq!(tried(&mut world, &long, "$(STATE:TOKEN)"), (None, true));
}

// D6: a place that nobody knows stays as it is, and a value ends at its bound.
#[test]
fn only_known_places_are_replaced() {
    let s = agreeing(1).observe();
    let render = |text: &str, each| {
        let template = Template { name: "db-state".into(), entries: vec![entry("A", text, each)] };
        state::render(&s, &template, &s.record, None).map(|data| data["A"].clone())
    };
    assert_eq!(render("$(NAME) $(GROUP $) $$(GROUP)", false).unwrap(), "$(NAME) $(GROUP $) $db");
    assert_eq!(render(&"x".repeat(limits::STATE_BYTES), false).unwrap().len(), limits::STATE_BYTES);
    for text in ["x".repeat(limits::STATE_BYTES + 1), "$(GROUP)".repeat(limits::STATE_BYTES)] {
        assert!(render(&text, false).unwrap_err().contains("shorten A"));
    }
    // Three members with two separators have exactly as many bytes as there may be.
    let third = (limits::STATE_BYTES - 2) / 3;
    assert!(render(&"x".repeat(third), true).is_ok() && render(&"x".repeat(third + 1), true).is_err());
    for (text, each, unknown) in [
        ("$(GROUP)$(NAME)", true, None),
        ("$(GROUP)$(NAME)", false, Some("$(NAME)")),
        ("$5 $$ (NAME)", false, None),
        ("$(name)", true, Some("$(name)")),
        ("a$(NAME", true, Some("$(NAME")),
    ] {
        assert_eq!(state::unknown_place(text, each).as_deref(), unknown, "{text}");
    }
}

// D6: a ConfigMap that cannot be written keeps those from starting who need it, and nobody else.
#[test]
fn what_is_not_written_stops_only_those_who_start() {
    let s = setting_with_two();
    let run = |needs_state| Action::Run {
        intent: intent(&s, Verb::Place, 1),
        argv: vec!["secondary".into()],
        env: Vec::new(),
        needs_state,
    };
    let write = Action::WriteState { name: "db-state".into(), data: Data::new(), version: None, awaited: true };
    let mut missing = Missing::default();
    missing.add(spoils(&write));
    assert_eq!([run(true), run(false)].map(|action| missing.stops(&action)), [true, false]);
    assert!(!missing.stops(&write));
}

fn setting_with_two() -> Snapshot {
    let mut world = World::new(2, 1);
    world.group.commands.membership = Some(setting::members(false));
    world.observe()
}
