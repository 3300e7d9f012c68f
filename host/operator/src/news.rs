//! News: events, for people who read `kubectl describe` and for those who keep them. Each is about one group and, where it is, one pod.
use crate::act::Error;
use crate::context::Context;
use crate::observe::Observed;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::runtime::events::{Event, EventType};
use tanist_core::contract::MemberName;
use tanist_core::plan::{Action, Plan};

/// Events of one round, at most: news, not a log.
const NEWS: usize = 8;

/// Bytes of a note that Kubernetes takes.
const NOTE: usize = 900;

/// One piece of news. Kubernetes counts repeated events by everything but their note, so what differs must differ in the rest.
struct News {
    kind: EventType,
    reason: &'static str,
    action: String,
    member: Option<MemberName>,
    note: String,
}

/// Tells what a round did, and what it learned.
pub async fn tell(ctx: &Context, observed: &Observed, plan: &Plan, outcome: Option<&Error>) {
    let group = observed.object.object_ref(&());
    for news in gather(observed, plan, outcome).into_iter().take(NEWS) {
        let event = Event {
            type_: news.kind,
            reason: news.reason.into(),
            note: Some(news.note.chars().take(NOTE).collect()),
            action: news.action,
            secondary: news.member.and_then(|m| pod(observed, &m)),
        };
        if let Err(error) = ctx.recorder.publish(&event, &group).await {
            tracing::debug!(%error, "an event could not be written");
        }
    }
}

fn gather(observed: &Observed, plan: &Plan, outcome: Option<&Error>) -> Vec<News> {
    let mut news = Vec::new();
    for action in plan.actions.iter().filter(|_| outcome.is_none()) {
        match action {
            Action::Run { intent, .. } => {
                let decision = plan.decisions.iter().find(|d| d.chosen.as_ref() == Some(&intent.member));
                let why = decision.map(|d| format!(": {}", d.reason)).unwrap_or_default();
                news.push(News {
                    kind: EventType::Normal,
                    reason: "CommandStarted",
                    action: intent.verb.as_str().to_owned(),
                    member: Some(intent.member.clone()),
                    note: format!("{} on {} in term {}{why}", intent.command, intent.member, intent.term),
                });
            }
            Action::DeletePod { member, reason, .. } => news.push(News {
                kind: EventType::Warning,
                reason: "PodDeleted",
                action: "delete".into(),
                member: Some(member.clone()),
                note: format!("the pod of {member} is deleted, its volumes stay: {reason}"),
            }),
            Action::Scale { replicas } => news.push(News {
                kind: EventType::Normal,
                reason: "Shrunk",
                action: "shrink".into(),
                member: None,
                note: format!("{replicas} members stay; those that left are stopped, and their volumes stay"),
            }),
            Action::Apply(_) | Action::Route { .. } | Action::Read { .. } | Action::MarkClaim { .. } => {}
        }
    }
    for transition in plan.noted(&observed.snapshot.record).filter(|t| t.what == "command-failed") {
        let member = transition.member.clone();
        let name = member.as_ref().map(ToString::to_string).unwrap_or_default();
        let note = format!("{name}: {}", transition.detail.clone().unwrap_or_default());
        news.push(News { kind: EventType::Warning, reason: "CommandFailed", action: "settle".into(), member, note });
    }
    let noted = plan.noted(&observed.snapshot.record);
    for transition in noted.filter(|t| matches!(&*t.what, "handed-over" | "hand-over-failed")) {
        let done = transition.what == "handed-over";
        let leads = transition.member.as_ref().map(ToString::to_string).unwrap_or_default();
        let detail = transition.detail.clone().unwrap_or_default();
        let note = if done {
            format!("{leads} leads, handed over {detail}")
        } else {
            format!("{leads} leads again: nobody else had all it has")
        };
        news.push(News {
            kind: if done { EventType::Normal } else { EventType::Warning },
            reason: if done { "HandedOver" } else { "HandOverFailed" },
            action: "hand-over".into(),
            member: transition.member.clone(),
            note,
        });
    }
    for violation in &plan.violations {
        let (action, note) = (format!("{:?}", violation.rule), violation.message.clone());
        news.push(News {
            kind: EventType::Warning,
            reason: "AnswerRejected",
            action,
            member: violation.member.clone(),
            note,
        });
    }
    for unanswered in &plan.broken {
        let note = format!("{}: {}", unanswered.policy, unanswered.message);
        news.push(News {
            kind: EventType::Warning,
            reason: "PolicyFailed",
            action: unanswered.kind.into(),
            member: None,
            note,
        });
    }
    news
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
