//! What the host would ask about a group that is described as policies see it: for tests of a policy's own functions.
use crate::check;
use crate::contract::{self, MemberName, Phase, Position, Role};
use crate::decide::decide;
use crate::examples::parts::{self, commands};
use crate::examples::routed;
use crate::examples::scene::Recorder;
use crate::limits;
use crate::membership::{Entry, Heard, List, Vote};
use crate::memory;
use crate::plan::{DecidedBy, Plan};
use crate::policy::{Point, Question};
use crate::question::{add_missing, question};
use crate::record::{Canary, GroupSize, Mark, Record, Seeded, Verdict};
use crate::snapshot::{
    Batch, Claim, Command, Commands, Container, Failover, Group, Member, MemberCommands, Node, Pod, Reading, Set,
    Snapshot, Update,
};
use std::collections::{BTreeMap, BTreeSet};

/// The container of every command.
const CONTAINER: &str = "main";

/// The question that a round asks about such a group, with the bars of the host; where it bars every member and asks nobody, too. What a round does not
/// learn from a group (other facts, marks) is kept from the story; its bars are not.
///
/// A group without a term in which a member has data or does not stand still is in term 1, and members without a term are of the group's.
///
/// # Errors
/// The question does not arise; the text says what the host does instead.
pub fn asked(point: Point, story: &contract::Snapshot) -> Result<Question, String> {
    let observed = observed(point, story);
    let recorder = Recorder::of(point);
    let plan = decide(&observed, &recorder);
    let questions = recorder.asked.into_inner();
    let found = questions.iter().find(|question| question.point == point).cloned();
    let mut found = match found.or_else(|| nobody(&observed, point, &plan)) {
        Some(question) => question,
        None => {
            let asks = questions.iter().map(|question| question.point);
            return Err(why_nobody_moves(&observed, point).unwrap_or_else(|| why_not(&plan, asks)));
        }
    };
    found.snapshot.parameters.clone_from(&story.parameters);
    // Why the lead would move follows from the group.
    let told: Vec<_> = story.group.facts.iter().filter(|(key, _)| key != "switchover").cloned().collect();
    found.snapshot.group.facts = told_first(&told, &found.snapshot.group.facts);
    for member in &mut found.snapshot.members {
        if let Some(told) = story.members.iter().find(|told| told.name == member.name) {
            member.marked = told.marked;
            member.facts = told_first(&told.facts, &member.facts);
        }
    }
    Ok(found)
}

/// The facts of the story, and those of the host that it does not tell.
fn told_first(told: &[(String, String)], own: &[(String, String)]) -> Vec<(String, String)> {
    let mut facts = told.to_vec();
    add_missing(&mut facts, own);
    facts
}

/// What a round did instead of asking a question, in words: `asks` has the questions that it asked.
#[must_use]
pub fn why_not(plan: &Plan, asks: impl IntoIterator<Item = Point>) -> String {
    let asks: Vec<_> = asks.into_iter().map(Point::as_str).collect();
    let waits: Vec<_> = plan.waits.iter().map(|wait| wait.message.as_str()).collect();
    match (asks.as_slice(), waits.as_slice()) {
        ([], []) => "nothing is to be decided; look at the members' roles and at group.primaries".to_owned(),
        ([], waits) => format!("it waits, because {}", waits.join("; ")),
        (asks, _) => format!("it asks {}", asks.join(" and ")),
    }
}

/// Why no policy is asked about a secondary that may move, where nothing else is to be done first: a round says nothing of it, because nobody waits for
/// it. `None`: it is another question, or a policy is asked.
#[must_use]
pub fn why_nobody_moves(observed: &Snapshot, point: Point) -> Option<String> {
    let is_older = |m: &Member| m.pod.as_ref().is_some_and(|pod| pod.older_template);
    let changed = observed.members.iter().any(is_older);
    match point {
        Point::Rebalance => {}
        Point::Update | Point::Judge if !changed => {
            return Some(
                "the pod of every member has the present template (the fact template of a member: older)".to_owned(),
            );
        }
        Point::Admit if observed.group.requested.replicas == observed.group.replicas => {
            return Some("group.replicas asks for as many members as there are (the fact replicas-before)".to_owned());
        }
        Point::Order if !observed.members.iter().any(|m| check::may_change(observed, m).is_ok()) => {
            return Some(
                "no member may come or leave now: look at group.replicas and at the members' roles".to_owned(),
            );
        }
        Point::Judge if observed.record.canary.is_none() => {
            return Some("no member is watched with the changed template (the fact canary of the group)".to_owned());
        }
        Point::Update => {
            let bar = |m: &Member| Some(format!("{}: {}", m.name, check::update_member(observed, m).err()?));
            let bars: Vec<_> = observed.members.iter().filter_map(bar).collect();
            let all = bars.len() == observed.members.len();
            return all.then(|| format!("every member is barred: {}", bars.join("; ")));
        }
        _ => return None,
    }
    if let Err(violation) = check::rebalance_group(observed) {
        return Some(violation.to_string());
    }
    let bar = |m: &Member| Some(format!("{}: {}", m.name, check::rebalance_candidate(observed, m).err()?));
    let bars: Vec<_> = observed.members.iter().filter_map(bar).collect();
    (bars.len() == observed.members.len()).then(|| format!("every member is barred: {}", bars.join("; ")))
}

/// The question that is put to nobody, because every member is barred.
fn nobody(observed: &Snapshot, point: Point, plan: &Plan) -> Option<Question> {
    let decided = plan.decisions.iter().find(|decision| decision.point == point);
    let nobody = decided.filter(|decision| decision.by == DecidedBy::NoCandidate)?;
    let bars = nobody.candidates.iter().map(|each| (each.member.clone(), each.reason.clone())).collect();
    Some(question(observed, point, &bars))
}

/// The group as the operator would have observed it. What the contract does not say is as in a healthy group.
fn observed(point: Point, story: &contract::Snapshot) -> Snapshot {
    let term = term(story);
    let members: Vec<_> = story.members.iter().map(|told| member(story, told)).collect();
    let (replicas, admitted) = sizes(point, story);
    let mut record = record(story, term, replicas);
    record.admitted = admitted.map(|replicas| GroupSize { replicas, primaries: story.group.primaries });
    record.canary = canary(point, story);
    let list = list(story);
    record.membership = list.as_ref().map(|list| list.to_record(&story.group.name, None));
    let heard = list.map(|list| Heard { list: Ok(list), at: story.now });
    for (told, member) in story.members.iter().zip(&members) {
        let known = record.member_mut(&member.name);
        let own = told.term.or_else(|| (term > 0 && told.position != Position::Empty).then_some(term));
        known.term = own;
        known.claim_uid = own.and_then(|_| memory::claim_uids(&member.claims));
        // A lead that moved a short time ago is no matter for a policy.
        let leads = point == Point::Switchover && told.role == Role::Primary;
        let usual = story.now.saturating_sub(limits::LEAD_SECONDS);
        known.last_primary = if leads { Some(usual) } else { told.last_primary };
        // A primary was made one by a command of this group, whatever the story says of its past.
        known.primary_term = own.filter(|_| told.role == Role::Primary || known.last_primary.is_some());
        known.failures = told.failures;
        known.last_failure.clone_from(&told.last_failure);
    }
    Snapshot {
        now: story.now,
        began: 0,
        nonce: "story".to_owned(),
        group: group(point, story),
        record,
        objects: Vec::new(),
        set: Some(Set { uid: "set".to_owned(), replicas, ..Set::default() }),
        moving: None,
        members,
        evidence: BTreeMap::new(),
        nodes: Some(story.members.iter().map(|told| node(story, told)).collect()),
        ended: BTreeSet::new(),
        nodes_at: story.now,
        deleted_nodes: BTreeMap::new(),
        gone_pods: BTreeMap::new(),
        lists: heard.map(|heard| said_by(story, &heard)).unwrap_or_default(),
        answers: BTreeMap::new(),
        surplus_claims: Vec::new(),
        left_claims: Vec::new(),
        cluster_state: Default::default(),
        strangers: BTreeSet::new(),
    }
}

fn term(story: &contract::Snapshot) -> u64 {
    let blank = |m: &contract::Member| {
        matches!(m.position, Position::Empty | Position::NotAsked) && matches!(m.role, Role::Stopped)
    };
    let highest = story.members.iter().filter_map(|m| m.term).max().unwrap_or(0).max(story.group.term);
    highest.max(u64::from(!story.members.iter().all(blank)))
}

/// What the members of the application agree on, if the story says who is listed (the facts `listed` and `healthy`).
fn list(story: &contract::Snapshot) -> Option<List> {
    let entry = |told: &contract::Member| {
        let listed = fact(&told.facts, "listed")?;
        Some(Entry {
            name: (listed != "added").then(|| told.name.clone()),
            id: format!("{}-id", told.name),
            vote: if listed == "voter" { Vote::Voter } else { Vote::Learner },
            healthy: fact(&told.facts, "healthy") != Some("false"),
            address: told.name.to_string(),
        })
    };
    let entries: Vec<_> = story.members.iter().filter_map(entry).collect();
    (!entries.is_empty()).then(|| List { cluster: "story".to_owned(), entries })
}

/// Every listed member that runs says the same.
fn said_by(story: &contract::Snapshot, heard: &Heard) -> BTreeMap<MemberName, Heard> {
    let says = |told: &&contract::Member| matches!(told.role, Role::Primary | Role::Secondary);
    let says = story.members.iter().filter(says).filter(|told| fact(&told.facts, "listed").is_some());
    says.map(|told| (told.name.clone(), heard.clone())).collect()
}

/// How many members there are, and how many policies let in last.
fn sizes(point: Point, story: &contract::Snapshot) -> (u32, Option<u32>) {
    let count = |members: usize| u32::try_from(members).unwrap_or(u32::MAX);
    if point != Point::Admit {
        return (count(story.members.len()).max(story.group.replicas), None);
    }
    let there = story.members.iter().filter(|told| told.phase != Phase::Missing).count();
    let before = number(&story.group.facts, "replicas-before").unwrap_or(count(there));
    (before, Some(before))
}

fn record(story: &contract::Snapshot, term: u64, replicas: u32) -> Record {
    let seeded = |first: &contract::Member| Seeded { member: first.name.clone(), confirmed: true };
    Record {
        term,
        ever_seeded: story.members.first().filter(|_| term > 0).map(seeded),
        high_water: story.group.high_water.clone().map(|sequence| Mark { term, sequence }),
        last_replicas: replicas,
        history: story.history.clone(),
        cleared_generation: 1,
        ..Record::default()
    }
}

fn group(point: Point, story: &contract::Snapshot) -> Group {
    let told = &story.group;
    let command = |name: &str| Command { exec: vec![name.to_owned()], container: CONTAINER.to_owned(), timeout: 60 };
    Group {
        name: told.name.clone(),
        namespace: told.namespace.clone(),
        replicas: sizes(point, story).1.unwrap_or(told.replicas),
        requested: GroupSize { replicas: told.replicas, primaries: told.primaries },
        primaries: told.primaries,
        commands: Commands {
            secondary: told.has_secondaries.then(|| command("secondary")),
            membership: list(story).map(|_| MemberCommands {
                list: command("memberList"),
                add: command("memberAdd"),
                remove: command("memberRemove"),
                promote: Some(command("memberPromote")),
                recover: None,
                wipe: None,
            }),
            ..commands(command)
        },
        preferred_primary: told.preferred_primary.clone(),
        failover: Failover { max_behind: number(&told.facts, "max-behind"), ..Failover::default() },
        update: update(point, story),
        labels: told.labels.clone(),
        ..parts::group(told.replicas)
    }
}

/// The template of the group, where a question is about its way to the members.
const CHANGED: &str = "changed";

fn fact<'a>(facts: &'a [(String, String)], word: &str) -> Option<&'a str> {
    facts.iter().find(|(key, _)| key == word).map(|(_, value)| value.as_str())
}

fn update(point: Point, story: &contract::Snapshot) -> Update {
    if !matches!(point, Point::Update | Point::Judge) {
        return Update::default();
    }
    let facts = &story.group.facts;
    let batch = match fact(facts, "update-batch") {
        Some("zone") => Batch::Zone,
        Some("all") => Batch::All,
        _ => Batch::Member,
    };
    let canary = fact(facts, "canary").map_or(0, |_| number(facts, "canary-seconds").unwrap_or(300));
    Update { batch, canary, template: CHANGED.to_owned(), ..Update::default() }
}

/// The first member with the changed template, if the story has one. Where others are about to get it, it passed.
fn canary(point: Point, story: &contract::Snapshot) -> Option<Canary> {
    let member = MemberName::from(fact(&story.group.facts, "canary")?);
    let watched = story.members.iter().find(|told| told.name == member)?;
    let since = number(&story.group.facts, "canary-since").unwrap_or(watched.role_since);
    Some(Canary {
        template: CHANGED.to_owned(),
        pod_uid: format!("{member}-pod"),
        container: Some(format!("{member}-container")),
        member,
        begun: since,
        since: Some(since),
        unjudged: None,
        verdict: (point == Point::Update).then_some(Verdict::Passed),
    })
}

/// The number that a fact gives, if there is that fact and it is a number.
fn number<T: std::str::FromStr>(facts: &[(String, String)], word: &str) -> Option<T> {
    facts.iter().find(|(key, _)| key == word).and_then(|(_, value)| value.parse().ok())
}

fn member(story: &contract::Snapshot, told: &contract::Member) -> Member {
    let name = &told.name;
    // A role can only be read where commands arrive, and so can a position.
    let role = match told.phase {
        Phase::Running | Phase::Terminating => told.role,
        Phase::Missing | Phase::Pending | Phase::Ended | Phase::Unreachable => Role::Unknown,
    };
    let detail = match role {
        Role::Unknown => Some("its status cannot be read"),
        Role::Failed => Some("its status says failed"),
        _ => None,
    };
    let detail = detail.map(|usual| told.role_detail.clone().unwrap_or_else(|| usual.to_owned()));
    let position = if told.phase == Phase::Running { told.position.clone() } else { Position::NotAsked };
    Member {
        name: name.clone(),
        ordinal: told.ordinal,
        pod: (told.phase != Phase::Missing).then(|| pod(told)),
        claims: vec![Claim {
            name: format!("data-{name}"),
            uid: format!("{name}-claim"),
            version: "1".to_owned(),
            mark: None,
            start: None,
            room: None,
        }],
        reading: Reading {
            role,
            detail,
            since: told.role_since,
            unknown_streak: u32::from(role == Role::Unknown),
            processes: None,
            running: None,
            contact: None,
        },
        position,
        position_at: story.now,
        position_stale: false,
        asked: false,
        conditions: told.conditions.clone(),
    }
}

fn pod(told: &contract::Member) -> Pod {
    let name = &told.name;
    let runs = !matches!(told.phase, Phase::Pending | Phase::Ended);
    let serves = matches!(told.role, Role::Primary | Role::Secondary);
    let is_older = fact(&told.facts, "template") == Some("older");
    let container = Container { id: Some(format!("{name}-container")), running: runs, ready: serves };
    Pod {
        uid: format!("{name}-pod"),
        version: "1".to_owned(),
        phase: told.phase,
        phase_since: told.phase_since,
        ready: told.ready,
        node: (told.phase != Phase::Pending).then(|| node_name(told)),
        grace: 30,
        containers: BTreeMap::from([(CONTAINER.to_owned(), container)]),
        routed: routed(told.role),
        outdated: is_older,
        older_template: is_older,
        needs_new_member: false,
        template: None,
        gate: None,
        labels: told.labels.clone(),
        trouble: None,
        stray: None,
        is_elsewhere: false,
        programs: None,
        adoption: None,
        is_being_deleted: false,
        lacked_memory: false,
    }
}

/// A member without a node has one of its own, so that its zone is known.
fn node_name(told: &contract::Member) -> String {
    told.node.clone().unwrap_or_else(|| format!("node-of-{}", told.name))
}

/// The primary's node is to be drained where the story has that fact: nothing else in the contract says so.
fn node(story: &contract::Snapshot, told: &contract::Member) -> (String, Node) {
    let drain = story.group.facts.iter().any(|(key, value)| key == "switchover" && value == "drain");
    let leads = story.members.iter().find(|m| m.role == Role::Primary).map(node_name);
    let node = Node {
        ready: told.phase != Phase::Unreachable,
        since: 0,
        seen: 0,
        out_of_service: false,
        cordoned: drain && leads.is_some_and(|name| name == node_name(told)),
        zone: told.zone.clone(),
    };
    (node_name(told), node)
}
