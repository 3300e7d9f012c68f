//! News: Kubernetes events, for users of `kubectl describe` and for tools that store events. Each is about one group and, if it fits, one pod.
#![expect(clippy::disallowed_methods, reason = "the delivery of an event has a deadline")]
use crate::context::Context;
use crate::metrics::Metrics;
use crate::readable::Stored;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource, ResourceExt};
use std::collections::BTreeMap;
use std::time::Duration;
use tanist_api::validate::cut;
use tanist_cluster::act::{Error, Outcome};
use tanist_cluster::api_error;
use tanist_cluster::observe::Observed;
use tanist_core::contract::{MemberName, Transition};
use tanist_core::plan::{Action, DeletionCause, Plan};
use tanist_core::record::{self, Intent, Verb};
use tokio::sync::mpsc;

/// The most events of one round: events are news and no log.
const NEWS: usize = 8;

/// Bytes of a note; Kubernetes refuses more than 1,024.
const NOTE: usize = 900;

/// Bytes of an action; Kubernetes refuses more than 128.
const ACTION: usize = 128;

/// The length of the queue of events, far more than a burst of rounds has. When the queue is full, the newest events are dropped.
const QUEUE: usize = 256;

/// Deadline of one event.
const DELIVERY: Duration = Duration::from_secs(10);

/// The queue into which rounds put their events, so that no round waits for a write.
#[derive(Clone)]
pub struct Queue {
    sender: mpsc::Sender<(Event, ObjectReference)>,
    metrics: Metrics,
}

/// What [`deliver`] takes from a [`Queue`].
pub type Outbox = mpsc::Receiver<(Event, ObjectReference)>;

impl Queue {
    /// An empty queue, and its receiving end.
    #[must_use]
    pub fn new(metrics: Metrics) -> (Self, Outbox) {
        let (sender, outbox) = mpsc::channel(QUEUE);
        (Queue { sender, metrics }, outbox)
    }

    fn enqueue(&self, event: Event, about: ObjectReference) {
        if self.sender.try_send((event, about)).is_err() {
            self.metrics.events_dropped.inc();
        }
    }
}

/// Writes events, one after the other, until every [`Queue`] is gone. An event that the API server does not accept in time is dropped: nothing is
/// decided by events.
pub async fn deliver(mut outbox: Outbox, client: Client, identity: String, metrics: Metrics) {
    let recorder = Recorder::new(client, Reporter { controller: "tanist".into(), instance: Some(identity) });
    while let Some((event, about)) = outbox.recv().await {
        let why = match tokio::time::timeout(DELIVERY, recorder.publish(&event, &about)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => api_error::words(&error),
            Err(_) => format!("no answer within {} s", DELIVERY.as_secs()),
        };
        metrics.events_dropped.inc();
        tracing::debug!(why, reason = event.reason, "an event could not be written");
    }
}

/// One event. Kubernetes merges events that differ only in their note, so different events must differ in another field.
struct News {
    kind: EventType,
    reason: &'static str,
    action: String,
    member: Option<MemberName>,
    note: String,
}

/// Puts events about the actions, results and errors of a round into the queue.
/// `reverted`: what is said of policies that failed too often.
pub fn publish(ctx: &Context, observed: &Observed, plan: &Plan, outcome: &Outcome, reverted: &[String]) {
    let mut all = new_errors(ctx, observed, outcome.errors.iter());
    all.extend(reverted.iter().map(|note| News {
        kind: EventType::Warning,
        reason: "PolicyReverted",
        action: "revert".into(),
        member: None,
        note: note.clone(),
    }));
    all.extend(gather(observed, plan, outcome));
    enqueue(ctx, observed, all);
}

/// Puts events about errors alone into the queue, after a round whose status could not be written: its decisions count for nothing, and without
/// an event `kubectl describe` would not say why nothing happens.
pub fn publish_errors<'e>(ctx: &Context, observed: &Observed, errors: impl Iterator<Item = &'e Error>) {
    enqueue(ctx, observed, new_errors(ctx, observed, errors));
}

/// Says that a group is of a version that this operator cannot read. Nothing else can say it: no round is about such a group.
pub fn unreadable(ctx: &Context, group: &Stored, why: &str) {
    let note = format!("this version of the operator cannot read the group, and does nothing about it: {why}");
    tracing::warn!(group = group.name_any(), namespace = group.namespace(), "{note}");
    let event = Event {
        type_: EventType::Warning,
        reason: "Unreadable".into(),
        note: Some(cut(&note, NOTE).to_owned()),
        action: "read".into(),
        secondary: None,
    };
    ctx.news.enqueue(event, group.object_ref(&()));
}

fn enqueue(ctx: &Context, observed: &Observed, all: Vec<News>) {
    let group = observed.object.object_ref(&());
    for news in all.into_iter().take(NEWS) {
        let event = Event {
            type_: news.kind,
            reason: news.reason.into(),
            note: Some(cut(&news.note, NOTE).to_owned()),
            action: news.action,
            secondary: news.member.and_then(|m| pod(observed, &m)),
        };
        ctx.news.enqueue(event, group.clone());
    }
}

/// Events for errors that the last round did not have. An error that lasts for hours gives one event; the conditions show it all the time.
fn new_errors<'e>(ctx: &Context, observed: &Observed, errors: impl Iterator<Item = &'e Error>) -> Vec<News> {
    let now: BTreeMap<String, &Error> = errors.filter(|e| e.lasts()).map(|e| (e.to_string(), e)).collect();
    let before = ctx.rounds.hints.with_group(&observed.snapshot.group.uid, |h| {
        std::mem::replace(&mut h.reported, now.keys().cloned().collect())
    });
    let new = now.into_iter().filter(|(text, _)| !before.contains(text));
    let news = new.map(|(note, error)| News {
        kind: EventType::Warning,
        reason: error.reason().as_str(),
        action: cut(error.action(), ACTION).to_owned(),
        member: None,
        note,
    });
    news.collect()
}

/// Transitions about data that is given up, or is not, each with the reason and the action of its event.
const GIVEN_UP: [(record::Event, &str, &str); 3] = [
    (record::Event::DataGivenUp, "DataGivenUp", "failover"),
    (record::Event::Recovered, "Recovered", "recover"),
    (record::Event::RecoveryRefused, "RecoveryRefused", "recover"),
];

/// Transitions of the members of an application whose members agree, each with the reason of its event and what the application did.
const RESIZED: [(record::Event, &str, &str); 4] = [
    (record::Event::MemberAdded, "MemberAdded", "is a member now"),
    (record::Event::MemberRemoved, "MemberRemoved", "is no member any more"),
    (record::Event::Wiped, "DataRemoved", "left, and its data is removed; its volume stays"),
    (record::Event::MemberPromoted, "MemberPromoted", "has a vote now"),
];

fn gather(observed: &Observed, plan: &Plan, outcome: &Outcome) -> Vec<News> {
    let mut news: Vec<News> = outcome.done.iter().filter_map(|action| of_action(action, plan)).collect();
    let noted = |event: record::Event| plan.noted(&observed.snapshot.record).filter(move |t| event.is(&t.what));
    news.extend(noted(record::Event::CommandFailed).map(failed));
    for (what, reason, action) in GIVEN_UP {
        news.extend(noted(what).map(|transition| given_up(transition, reason, action)));
    }
    news.extend(noted(record::Event::Activated).map(activated));
    news.extend(noted(record::Event::Upgraded).map(upgraded));
    for (what, reason, did) in RESIZED {
        news.extend(noted(what).map(|transition| resized(transition, reason, did)));
    }
    news.extend(plan.noted(&observed.snapshot.record).filter_map(of_switchover));
    news.extend(of_policies(plan));
    news
}

/// The news about an action that was carried out. `None`: it changes nothing that a user asks about.
fn of_action(action: &Action, plan: &Plan) -> Option<News> {
    let news = |reason, action: &str, member: Option<&MemberName>, note| News {
        kind: EventType::Normal,
        reason,
        action: action.to_owned(),
        member: member.cloned(),
        note,
    };
    Some(match action {
        Action::Run { intent, .. } => {
            let note = started(intent, plan);
            news("CommandStarted", intent.verb.as_str(), Some(&intent.member), note)
        }
        Action::DeletePod { member, reason, cause, .. } => {
            let note = format!("the pod of {member} is deleted, its volumes stay: {reason}");
            let kind = if *cause == DeletionCause::Failure { EventType::Warning } else { EventType::Normal };
            News { kind, ..news("PodDeleted", "delete", Some(member), note) }
        }
        Action::DeleteClaim { member, claim, .. } => {
            let note = format!("the claim {claim} of {member} is deleted with its data: the member was removed");
            news("ClaimDeleted", "delete", Some(member), note)
        }
        Action::GrowClaim { member, claim, size, .. } => {
            let note = format!("the claim {claim} of {member} asks for {size}");
            news("VolumeGrows", "grow", Some(member), note)
        }
        Action::DropSet { .. } => {
            let note = "every pod belongs to the group itself; the StatefulSet is deleted, and no pod with it";
            news("MembersMoved", "move", None, note.into())
        }
        Action::Scale { replicas } => {
            let note = format!("{replicas} members stay; the volumes of those that left stay");
            news("Shrunk", "shrink", None, note)
        }
        Action::Apply(_)
        | Action::Nudge { .. }
        | Action::Create { .. }
        | Action::Adopt { .. }
        | Action::Route { .. }
        | Action::Read { .. }
        | Action::List { .. }
        | Action::Ask { .. }
        | Action::MarkClaim { .. }
        | Action::WriteState { .. } => return None,
    })
}

/// What is said of a command that was started: where, and why there.
fn started(intent: &Intent, plan: &Plan) -> String {
    let decision = plan.decisions.iter().find(|d| d.chosen.as_ref() == Some(&intent.member));
    let moved = plan.record.switchover.as_ref().filter(|_| intent.verb == Verb::Switchover);
    let why = decision.map(|d| &d.reason).or(moved.map(|moved| &moved.why));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{} on {} in term {}{why}", intent.command, intent.member, intent.term)
}

/// The member of a transition, as text. Empty: it is about no member.
fn name_of(transition: &Transition) -> String {
    transition.member.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn failed(transition: &Transition) -> News {
    let note = format!("{}: {}", name_of(transition), transition.detail.clone().unwrap_or_default());
    let (member, action) = (transition.member.clone(), "settle".into());
    News { kind: EventType::Warning, reason: "CommandFailed", action, member, note }
}

fn given_up(transition: &Transition, reason: &'static str, action: &str) -> News {
    let (member, note) = (transition.member.clone(), transition.detail.clone().unwrap_or_default());
    News { kind: EventType::Warning, reason, action: action.into(), member, note }
}

fn activated(transition: &Transition) -> News {
    let detail = transition.detail.clone().unwrap_or_default();
    let note = format!("{} is the active member: {detail}", name_of(transition));
    let (member, action) = (transition.member.clone(), "activate".into());
    News { kind: EventType::Normal, reason: "Activated", action, member, note }
}

fn resized(transition: &Transition, reason: &'static str, did: &str) -> News {
    let note = format!("{} {did}", name_of(transition));
    News { kind: EventType::Normal, reason, action: "resize".into(), member: transition.member.clone(), note }
}

fn upgraded(transition: &Transition) -> News {
    let detail = transition.detail.clone().unwrap_or_default();
    let note = format!("{} converted the data {detail}", name_of(transition));
    let (member, action) = (transition.member.clone(), "upgrade".into());
    News { kind: EventType::Normal, reason: "Upgraded", action, member, note }
}

/// The news about the end of a switchover. `None`: the transition is about something else.
fn of_switchover(transition: &Transition) -> Option<News> {
    let (leads, member) = (name_of(transition), transition.member.clone());
    let (kind, reason, note) = if record::Event::SwitchedOver.is(&transition.what) {
        let detail = transition.detail.clone().unwrap_or_default();
        (EventType::Normal, "SwitchedOver", format!("{leads} leads, switched over {detail}"))
    } else if record::Event::SwitchoverFailed.is(&transition.what) {
        let note = format!("{leads} leads again: no other member had all its data");
        (EventType::Warning, "SwitchoverFailed", note)
    } else {
        return None;
    };
    Some(News { kind, reason, action: "switchover".into(), member, note })
}

/// The news about answers that were refused, and about policies that gave none.
fn of_policies(plan: &Plan) -> impl Iterator<Item = News> {
    let rejected = plan.violations.iter().map(|violation| News {
        kind: EventType::Warning,
        reason: "AnswerRejected",
        action: violation.rule.as_str().to_owned(),
        member: violation.member.clone(),
        note: violation.message.clone(),
    });
    let broken = plan.broken.iter().map(|unanswered| News {
        kind: EventType::Warning,
        reason: "PolicyFailed",
        action: unanswered.kind.into(),
        member: None,
        note: format!("{}: {}", unanswered.policy, unanswered.message),
    });
    rejected.chain(broken)
}

fn pod(observed: &Observed, member: &MemberName) -> Option<ObjectReference> {
    let pod = observed.snapshot.member(member)?.pod.as_ref()?;
    Some(ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(member.to_string()),
        namespace: Some(observed.snapshot.group.namespace.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::mock;
    use serde_json::json;
    use std::sync::Arc;
    use tanist_api::ReplicaGroup;
    use tanist_core::examples::Scene;
    use tanist_core::snapshot::Snapshot;

    fn event() -> Event {
        let (reason, action) = ("R".to_owned(), "a".to_owned());
        Event { type_: EventType::Normal, reason, note: None, action, secondary: None }
    }

    // No round waits for an event. When the queue is full, the newest events are dropped and counted.
    #[tokio::test]
    async fn the_newest_events_are_dropped_when_too_many_wait() {
        let metrics = Metrics::default();
        let (queue, _outbox) = Queue::new(metrics.clone());
        for _ in 0..QUEUE + 44 {
            queue.enqueue(event(), ObjectReference::default());
        }
        assert!(metrics.text().unwrap().contains("tanist_events_dropped_total 44"));
    }

    // The API server never answers: each event is given up after its time, and the next one is tried.
    #[tokio::test(start_paused = true)]
    async fn an_event_without_an_answer_holds_up_no_other() {
        let (client, asked) = mock::server(|_, _, _| None);
        let metrics = Metrics::default();
        let (queue, outbox) = Queue::new(metrics.clone());
        for reason in ["R", "S"] {
            queue.enqueue(Event { reason: reason.into(), ..event() }, ObjectReference::default());
        }
        drop(queue);
        let delivered = deliver(outbox, client, "me".into(), metrics.clone());
        tokio::time::timeout(Duration::from_secs(300), delivered).await.unwrap();
        assert!(metrics.text().unwrap().contains("tanist_events_dropped_total 2"));
        assert_eq!(asked.lock().unwrap().len(), 2);
    }

    /// That group, with nothing else to be said of it.
    fn observed(object: &Arc<ReplicaGroup>, snapshot: Snapshot) -> Observed {
        let (object, unfit) = (object.clone(), Vec::new());
        Observed { object, snapshot, pods: None, template: None, unreadable: None, unfit }
    }

    // Events are news and no log: a round that has much to tell tells the first of it, and leaves room in the queue for other groups.
    #[tokio::test]
    async fn a_round_tells_few_events() {
        let (client, _) = mock::server(|_, _, _| None);
        let (ctx, mut outbox) = mock::context(client, &[]);
        let object = Arc::new(tanist_api::examples::group(&json!({})).unwrap());
        let snapshot = Scene::new(2).observed().clone();
        let plan = Plan::new(snapshot.record.clone());
        let observed = observed(&object, snapshot);
        let outcome = Outcome { object, recorded: true, done: Vec::new(), errors: Vec::new() };
        let reverted: Vec<String> = (0..NEWS + 3).map(|number| number.to_string()).collect();
        publish(&ctx, &observed, &plan, &outcome, &reverted);
        let told: Vec<_> = std::iter::from_fn(|| outbox.try_recv().ok()).filter_map(|(event, _)| event.note).collect();
        assert_eq!(told, reverted[..NEWS]);
    }

    /// What is told of a round that noted this about db-1.
    fn told(what: record::Event, detail: Option<&str>) -> Vec<(&'static str, Option<MemberName>, String)> {
        let snapshot = Scene::new(2).observed().clone();
        let object = Arc::new(tanist_api::examples::group(&json!({})).unwrap());
        let mut plan = Plan::new(snapshot.record.clone());
        plan.record.note(snapshot.now, what, Some(&"db-1".into()), detail.map(str::to_owned));
        let observed = observed(&object, snapshot);
        let outcome = Outcome { object, recorded: true, done: Vec::new(), errors: Vec::new() };
        gather(&observed, &plan, &outcome).into_iter().map(|news| (news.reason, news.member, news.note)).collect()
    }

    // Major versions: `kubectl describe` says that the data was converted, on which member, and from which version to which.
    #[test]
    fn a_conversion_is_told() {
        let note = "db-1 converted the data from version 15 to 17".to_owned();
        let told = told(record::Event::Upgraded, Some("from version 15 to 17"));
        assert_eq!(told, [("Upgraded", Some("db-1".into()), note)]);
    }

    // D4, D5: and how the members of an application change whose members agree.
    #[test]
    fn changes_of_the_members_are_told() {
        let told = |what| told(what, None).into_iter().map(|(reason, _, note)| (reason, note)).collect::<Vec<_>>();
        assert_eq!(told(record::Event::MemberAdded), [("MemberAdded", "db-1 is a member now".into())]);
        assert_eq!(told(record::Event::MemberRemoved), [("MemberRemoved", "db-1 is no member any more".into())]);
        let wiped = "db-1 left, and its data is removed; its volume stays";
        assert_eq!(told(record::Event::Wiped), [("DataRemoved", wiped.into())]);
        assert_eq!(told(record::Event::MemberPromoted), [("MemberPromoted", "db-1 has a vote now".into())]);
    }

    #[tokio::test]
    async fn an_event_that_is_refused_is_dropped_and_the_next_one_is_tried() {
        let metrics = Metrics::default();
        let (queue, outbox) = Queue::new(metrics.clone());
        let (client, asked) = mock::server(|_, _, _| mock::refusal(403, "Forbidden", "no"));
        queue.enqueue(event(), ObjectReference::default());
        queue.enqueue(event(), ObjectReference::default());
        drop(queue);
        deliver(outbox, client, "a".into(), metrics.clone()).await;
        assert_eq!(asked.lock().unwrap().len(), 2);
        assert!(metrics.text().unwrap().contains("tanist_events_dropped_total 2"));
    }
}
