//! `tanist pause`, `resume` and `retry`: one field or annotation each. They say what is known of their effect, and no more: the operator sees them a moment later.
use super::find::{change, find, observed};
use super::output::print;
use super::{Session, me};
use anyhow::bail;
use jiff::Timestamp;
use serde_json::json;
use std::fmt::Write;
use tanist_api::explain::command;
use tanist_api::view::View;
use tanist_api::{ANNOTATION_RETRY, ReplicaGroup};

/// Pauses a group.
///
/// # Errors
/// When there is none, or the API server refuses.
pub async fn pause(session: &Session, name: &str) -> anyhow::Result<()> {
    let paused = change(&session.groups(), name, &json!({"spec": {"paused": true}})).await?;
    print(&paused_text(&paused, Timestamp::now()))
}

/// What a pause means for the commands that the operator has begun.
fn paused_text(group: &ReplicaGroup, now: Timestamp) -> String {
    let view = View::new(group);
    let mut out = format!("{}: paused, until: {} resume {}\n", view.name(), me(), view.short_name());
    match view.record() {
        Ok(record) if record.intents.is_empty() => {
            let _ = writeln!(out, "No command was under way. One that begins in this moment still ends.");
        }
        Ok(record) => {
            for intent in &record.intents {
                let _ = writeln!(out, "It goes on to its end: {}.", command(intent, now));
            }
        }
        Err(why) => {
            let _ = writeln!(
                out,
                "Whether commands are under way is not known ({why}); those that are go on to their end."
            );
        }
    }
    out
}

/// Ends a pause.
///
/// # Errors
/// When there is no such group, or the API server refuses.
pub async fn resume(session: &Session, name: &str) -> anyhow::Result<()> {
    let group = change(&session.groups(), name, &json!({"spec": {"paused": false}})).await?;
    let view = View::new(&group);
    print(&match observed(&view) {
        Ok(()) => format!("{}: it is not paused any more\n", view.name()),
        Err(why) => format!("{}: it is not paused any more, and {why}\n", view.name()),
    })
}

/// Has the operator try again at once what failed.
///
/// # Errors
/// When nobody would do that, or the API server refuses.
pub async fn retry(session: &Session, name: &str) -> anyhow::Result<()> {
    let groups = session.groups();
    let group = find(&groups, name).await?;
    if let Err(why) = observed(&View::new(&group)) {
        bail!("nothing was changed: {why}");
    }
    if group.spec.paused {
        bail!("nothing was changed: the group is paused; first: {} resume {name}", me());
    }
    let now = Timestamp::now().to_string();
    let group = change(&groups, name, &json!({"metadata": {"annotations": {ANNOTATION_RETRY: now}}})).await?;
    print(&format!("{}: the operator is asked to try again at once what failed\n", View::new(&group).name()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::mock;

    // Whoever pauses a group to work on a member by hand must know what still happens to it.
    #[test]
    fn a_pause_says_what_goes_on() {
        let said = |record| paused_text(&example(&json!({"status": {"record": record}})), Timestamp::UNIX_EPOCH);
        assert!(said(json!({})).contains("No command was under way"), "{}", said(json!({})));
        let promote = json!({"intents": [{
            "token": "t", "command": "primary", "member": "db-1", "verb": "failover", "started": 1, "timeout": 60,
            "podUid": "u1", "container": "db", "containerId": "c1", "generation": 2, "term": 4
        }]});
        let text = said(promote);
        assert!(text.starts_with("shop/db: paused, until: ") && text.contains("It goes on to its end: "), "{text}");
        assert!(text.contains("db-1"), "{text}");
    }

    // A request that nobody would hear is not made.
    #[tokio::test]
    async fn nothing_is_tried_again_of_a_group_that_is_paused_or_not_managed() {
        for (changes, why) in [
            (json!({"spec": {"paused": true}}), Some("the group is paused")),
            (json!({"status": null}), Some("no operator has looked")),
            (json!({}), None),
        ] {
            let group = serde_json::to_value(example(&changes)).unwrap();
            let (client, requests) = mock::server(move |_, _, _| Some((200, group.clone())));
            let said = retry(&Session::over(client, "shop"), "db").await.map_err(|error| error.to_string());
            let patches = requests.lock().unwrap().iter().filter(|request| request.0 == "PATCH").count();
            match why {
                Some(why) => assert!(said.unwrap_err().contains(why) && patches == 0),
                None => assert!(said.is_ok() && patches == 1, "{said:?}"),
            }
        }
    }
}
