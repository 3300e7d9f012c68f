#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::cli::example;
use crate::mock;
use serde_json::{Value, json};
use std::sync::Mutex;

const DIGEST: &str = "sha256:new";

fn policy(state: &str, digest: &str, message: Option<&str>) -> Value {
    json!({"source": "configmap/rules/mine.star", "state": state, "digest": digest, "message": message})
}

fn read(value: Value) -> PolicyStatus {
    serde_json::from_value(value).unwrap()
}

/// A group that uses the key, with that status of it.
fn group(policy: Value) -> ReplicaGroup {
    let uses = json!([{"configMap": {"name": "rules", "key": "mine.star"}}]);
    example(&json!({"spec": {"policies": uses}, "status": {"policies": [policy]}}))
}

// P45: what was wrong before the policy was put says nothing about this version.
#[test]
fn a_group_follows_or_keeps_what_it_had() {
    let old = read(policy("LastGoodDecides", "sha256:old", Some("line 3")));
    for (state, digest, message, before, expected) in [
        ("Active", DIGEST, None, None, Stand::Follows),
        ("Active", DIGEST, None, Some(&old), Stand::Follows),
        ("NeverAsked", DIGEST, Some("it is never asked"), None, Stand::Follows),
        ("LastGoodDecides", "sha256:old", Some("line 9"), Some(&old), Stand::Keeps("line 9".into())),
        ("NotLoaded", "", Some("line 9"), None, Stand::Keeps("line 9".into())),
        ("PreviousDecides", "sha256:old", Some("it failed"), None, Stand::Keeps("it failed".into())),
        ("LastGoodDecides", "sha256:old", Some("line 3"), Some(&old), Stand::Waits("line 3".into())),
        ("LastGoodDecides", DIGEST, Some("line 3"), Some(&old), Stand::Waits("line 3".into())),
        ("Flapping", "sha256:old", Some("it changes"), None, Stand::Waits("it changes".into())),
        ("Active", "sha256:old", None, None, Stand::Waits("it still decides by the version before".into())),
    ] {
        let seen = read(policy(state, digest, message));
        assert_eq!(stand(Some(&seen), before, DIGEST), expected, "{state} {message:?}");
    }
    assert!(matches!(stand(None, None, DIGEST), Stand::Waits(_)));
}

#[test]
fn only_groups_that_name_the_key_are_waited_for() {
    let other = example(&json!({"spec": {"policies": [{"configMap": {"name": "rules", "key": "other.star"}}]}}));
    let uses = group(policy("Active", "sha256:old", None));
    let found = users(&[other.clone(), uses], "rules", "mine.star");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].before.as_ref().unwrap().digest.as_deref(), Some("sha256:old"));
    assert_eq!(users(&[other], "rules", "mine.star").len(), 0);
}

/// Follows a group whose answers to GET are these, the last one for ever.
async fn follow_answers(answers: Vec<Option<Value>>, timeout: Duration) -> (Vec<Followed>, String) {
    let before = group(policy("Active", "sha256:old", None));
    let answers = Mutex::new(answers.into_iter());
    let mut last = None;
    let (client, _) = mock::server(move |_, _, _| {
        if let Some(next) = answers.lock().unwrap().next() {
            last = Some(next);
        }
        match last.clone().flatten() {
            Some(policy) => Some((200, serde_json::to_value(group(policy)).unwrap())),
            None => mock::refusal(404, "NotFound", "gone"),
        }
    });
    let session = Session::over(client, "shop");
    let told = Mutex::new(String::new());
    let say = |text: &str| {
        told.lock().unwrap().push_str(text);
        Ok(())
    };
    let followed = follow(&session, users(&[before], "rules", "mine.star"), DIGEST, timeout, say).await.unwrap();
    (followed, told.into_inner().unwrap())
}

#[tokio::test]
async fn each_group_is_told_as_it_follows() {
    let answers = vec![
        Some(policy("Active", "sha256:old", None)),
        Some(policy("Loading", "sha256:old", Some("it is being loaded"))),
        Some(policy("Active", DIGEST, None)),
    ];
    let (followed, told) = follow_answers(answers, Duration::from_secs(60)).await;
    assert_eq!((followed[0].result, told.as_str()), ("follows", "shop/db follows\n"));
    assert!(followed[0].is_well());
    let broken = vec![Some(policy("LastGoodDecides", "sha256:old", Some("mine.star:3")))];
    let (followed, told) = follow_answers(broken, Duration::from_secs(60)).await;
    assert_eq!(told, "shop/db keeps what it had: mine.star:3\n");
    assert!(!followed[0].is_well());
    let (followed, _) = follow_answers(vec![None], Duration::from_secs(60)).await;
    assert!(followed[0].is_well() && followed[0].result == "gone");
}

// P45: who does not follow in time is named.
#[tokio::test]
async fn the_end_of_the_time_names_the_groups_that_are_missing() {
    let answers = vec![Some(policy("Loading", "sha256:old", Some("it is being loaded")))];
    let (followed, told) = follow_answers(answers, Duration::ZERO).await;
    assert_eq!(told, "shop/db does not follow: not within 0 s: it is being loaded\n");
    assert!(!followed[0].is_well());
}
