//! Reads the sequences of members as the operator does.
use super::assess::Positions;
use crate::cli::Session;
use futures::future::join_all;
use kube::ResourceExt;
use tanist_api::ReplicaGroup;
use tanist_api::status::MemberStatus;
use tanist_api::validate;
use tanist_api::view::{View, is};
use tanist_cluster::cluster::kube::Kube;
use tanist_cluster::member::Target;
use tanist_core::contract::Position;
use tanist_core::record::Record;
use tanist_core::snapshot::Command;

/// The longest time in seconds for one member's answer, because an administrator is waiting.
const LONGEST: u32 = 60;

/// The present positions of the members that can be asked: their pods run, no command runs in them, and they are neither primary nor starting. The
/// positions of the others are unknown, with the reason.
pub async fn positions(session: &Session, group: &ReplicaGroup) -> Positions {
    let view = View::new(group);
    // If spec or record cannot be read, the assessment reports it.
    let (Ok(spec), Ok(record)) = (validate::group(group, "cluster.local"), view.record()) else {
        return Positions::new();
    };
    let command = Command { timeout: spec.commands.sequence.timeout.min(LONGEST), ..spec.commands.sequence.clone() };
    let cluster = Kube::new(session.client.clone(), session.exec_client.clone());
    let nonce = format!("{:016x}", rand::random::<u64>());
    let asked = view.members().iter().map(async |member| {
        let position = match why_not(member, &record, group.spec.paused) {
            Some(why) => Position::Unknown(why),
            None => {
                let target = Target {
                    namespace: session.namespace.clone(),
                    group: group.uid().unwrap_or_default(),
                    pod: member.name.clone(),
                    uid: member.pod_uid.clone().unwrap_or_default(),
                    runner: spec.runner,
                    probed: spec.active_passive,
                    // The operator's question has more; this one is asked without a cluster state.
                    env: Vec::new(),
                };
                let token = format!("override-{}-{nonce}", member.ordinal);
                target.sequence_by_hand(&cluster, &command, &token).await
            }
        };
        (member.name.clone(), position)
    });
    join_all(asked).await.into_iter().collect()
}

/// Why a member is not asked. The roles of a paused group are not read, so they say nothing.
fn why_not(member: &MemberStatus, record: &Record, paused: bool) -> Option<String> {
    if !is(&member.phase, "running") {
        return Some(match member.phase.to_ascii_lowercase().as_str() {
            "unreachable" => "its node does not report".into(),
            phase => format!("its pod is {phase}"),
        });
    }
    if let Some(intent) = record.intents.iter().find(|i| i.member.as_str() == member.name) {
        return Some(format!("the command {} runs in it", intent.command));
    }
    let moves = ["primary", "starting"].into_iter().find(|role| is(&member.role, role));
    moves.filter(|_| !paused).map(|role| format!("its role is {role}, so its data moves"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::mock;
    use serde_json::json;

    // A member is not asked while a command runs, while its pod does not, or while its data changes; the reason is given.
    #[test]
    fn only_members_that_can_answer_are_asked() {
        let member = |phase: &str, role: &str| MemberStatus {
            name: "db-0".into(),
            phase: phase.into(),
            role: role.into(),
            ..MemberStatus::default()
        };
        let record = Record::default();
        assert_eq!(why_not(&member("running", "stopped"), &record, false), None);
        assert_eq!(why_not(&member("Running", "Secondary"), &record, false), None);
        assert_eq!(why_not(&member("running", "unknown"), &record, true), None);
        assert_eq!(why_not(&member("missing", "unknown"), &record, false).unwrap(), "its pod is missing");
        assert_eq!(why_not(&member("unreachable", "unknown"), &record, false).unwrap(), "its node does not report");
        assert!(why_not(&member("running", "primary"), &record, false).unwrap().contains("moves"));
        let intent = json!({"intents": [{
            "token": "t", "command": "stop", "member": "db-0", "verb": "treat", "started": 1, "timeout": 60, "podUid": "u0",
            "container": "db", "containerId": "c0", "generation": 2, "term": 4
        }]});
        let record: Record = serde_json::from_value(intent).unwrap();
        assert_eq!(why_not(&member("running", "stopped"), &record, false).unwrap(), "the command stop runs in it");
    }

    // Without the right to execute in pods, the position is unknown, with that reason.
    #[tokio::test]
    async fn a_refused_question_is_an_unknown_position() {
        let (client, requests) = mock::server(|_, _, _| mock::refusal(403, "Forbidden", "no"));
        let group = example(&json!({"status": {"members": [
            {"name": "db-0", "ordinal": 0, "phase": "running", "role": "stopped", "podUID": "u0"},
            {"name": "db-1", "ordinal": 1, "phase": "missing", "role": "unknown"}
        ]}}));
        let read = positions(&Session::over(client, "shop"), &group).await;
        let unknown = |why: &str| Some(Position::Unknown(why.to_owned()));
        assert_eq!(read.get("db-0").cloned(), unknown("the API server answered forbidden (403): no"));
        assert_eq!(read.get("db-1").cloned(), unknown("its pod is missing"));
        let path = requests.lock().unwrap().first().unwrap().1.clone();
        assert!(path.starts_with("/api/v1/namespaces/shop/pods/db-0/exec?") && path.contains("tanist-run"), "{path}");
    }
}
