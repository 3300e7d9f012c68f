//! An admission webhook that does not answer: with `failurePolicy: Fail` the API server refuses what it was asked about.
use crate::takeover::{KILL, led, led_by_another};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, play, text, until};

/// A request of the operator that is refused.
struct Refused {
    /// What the webhook is asked about.
    rule: Value,
    /// A request of that kind, to see that the webhook is in force.
    probe: &'static [&'static str],
    /// Where the group says it.
    said: Said,
}

/// Where an administrator reads what is wrong.
enum Said {
    /// In this condition.
    Condition(&'static str),
    /// In an event, because the status cannot be written.
    Event,
}

/// A change of the status that the API server would accept.
const STATUS: &str = r#"{"status": {"replicas": 9}}"#;

fn rule(group: &str, version: &str, operation: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource]})
}

fn refused() -> [Refused; 3] {
    [
        Refused {
            rule: rule("", "v1", "UPDATE", "pods"),
            probe: &["label", "pod", "register-1", "example.org/probe=yes", "--dry-run=server"],
            said: Said::Condition("Degraded"),
        },
        Refused {
            rule: rule("", "v1", "CONNECT", "pods/exec"),
            probe: &["exec", "register-1", "-c", "register", "--", "true"],
            said: Said::Condition("Progressing"),
        },
        Refused {
            rule: rule("tanist.dev", "v1alpha1", "UPDATE", "replicagroups/status"),
            probe: &[
                "patch",
                "rg",
                "register",
                "--subresource=status",
                "--type=merge",
                "-p",
                STATUS,
                "--dry-run=server",
            ],
            said: Said::Event,
        },
    ]
}

/// A webhook in force, until this value is dropped.
struct Webhook(String);

impl Webhook {
    /// One whose Service has no endpoints. It concerns the group `register` and service accounts only: the test itself goes on.
    async fn dead(stage: &Stage, refused: &Refused) -> Result<Self> {
        let (name, namespace) = (&stage.namespace, &stage.namespace);
        let object = json!({"metadata": {"name": name}, "webhooks": [{
            "name": "dead.example.org", "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 5,
            "admissionReviewVersions": ["v1"], "rules": [refused.rule],
            "clientConfig": {"service": {"namespace": namespace, "name": "nobody"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "matchConditions": [
                {"name": "one-group", "expression": "request.name.startsWith('register')"},
                {"name": "service-accounts", "expression": "request.userInfo.username.startsWith('system:serviceaccount:')"}
            ]
        }]});
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
        let dead = Webhook(name.clone());
        webhooks.create(&PostParams::default(), &serde_json::from_value(object)?).await.context("no webhook")?;
        let who = format!("--as=system:serviceaccount:{namespace}:probe");
        let probe = [&["-n", namespace, &who, "--as-group=system:masters"], refused.probe].concat();
        until("the webhook is in force", 30, async || Ok(failed(&probe).contains("failed calling webhook"))).await?;
        Ok(dead)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", "validatingwebhookconfiguration", &self.0, "--ignore-not-found"]);
    }
}

fn failed(arguments: &[&str]) -> String {
    kubectl(arguments).err().map(|error| format!("{error:#}")).unwrap_or_default()
}

/// The member that leads.
async fn leader(group: &Group) -> Result<u32> {
    let leads = |seen: &Value| !text(seen, "/status/columns/primaries").is_empty();
    let seen = group.until("a primary", 60, leads).await?;
    Ok(text(&seen, "/status/columns/primaries").rsplit('-').next().context("nobody leads")?.parse()?)
}

async fn promotions(group: &Group) -> Result<usize> {
    Ok(group
        .executions()
        .await?
        .iter()
        .filter(|e| matches!(e.command.as_str(), "promote" | "seed" | "primary"))
        .count())
}

/// Waits until the group names the webhook, and says what to do about it.
async fn explained(stage: &Stage, group: &Group, said: &Said) -> Result<()> {
    let whole = |text: &str| {
        text.contains("dead.example.org") && text.contains("repair that webhook, or remove its configuration")
    };
    match said {
        Said::Condition(kind) => {
            group.until("the webhook is named", 60, |seen| whole(&condition(seen, kind))).await.map(drop)
        }
        Said::Event => {
            let events = || kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].message}"]);
            let about = |events: &str| events.contains("failed to write the status") && whole(events);
            until("an event that names the webhook", 60, async || Ok(about(&events()?))).await
        }
    }
}

// S48, S38, S31: a webhook that is down refuses labels of pods, executions, or the status of one group, while its primary dies. The group says which
// webhook it is and what to do, nobody is promoted, and another group takes over as ever. Once the webhook is removed, one member takes over, once.
#[test]
fn a_webhook_that_is_down_is_named_and_holds_up_one_group() -> Outcome {
    play("webhooks").run(async |stage| {
        let mut changes = led();
        changes["resyncIntervalSeconds"] = json!(1);
        let (group, other) = (stage.group("register"), stage.group("bystander"));
        group.create(changes.clone()).await?;
        other.create(changes).await?;
        kubectl(&["create", "service", "clusterip", "nobody", "--tcp=443:443", "-n", &stage.namespace])?;
        for group in [&group, &other] {
            group.ready(90).await?;
            group.member(0).write(3).await?;
            group.copied(3).await?;
        }
        for refused in refused() {
            let (old, others, before) = (leader(&group).await?, leader(&other).await?, promotions(&group).await?);
            let webhook = Webhook::dead(stage, &refused).await?;
            group.member(old).exec(&KILL).await?;
            other.member(others).exec(&KILL).await?;
            explained(stage, &group, &refused.said).await?;
            led_by_another(&other, others, 60).await?;
            // Enough for two more attempts, 5 s apart, beside the other group's rounds of each second.
            stage.operator.rounds(12.0, 120).await?;
            let now = promotions(&group).await?;
            ensure!(now == before, "{} promotions although the API server refuses {}", now - before, refused.rule);
            drop(webhook);
            led_by_another(&group, old, 60).await?;
            let now = promotions(&group).await?;
            ensure!(now == before + 1, "{} promotions after {}", now - before, refused.rule);
            group.rows(3).await?;
        }
        group.had_one_primary_at_a_time().await
    })
}
