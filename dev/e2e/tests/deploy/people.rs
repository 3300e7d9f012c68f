//! What people may do: by the roles of the chart tanist-crds, and with the example of admission policies, under which the operator goes on.
use crate::shop::{SPACE, Shop, example, in_shop, place, story};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tanist_e2e::{Outcome, kubectl, kubectl_given, merge, until};

// view sees, edit edits, nobody writes the status.
#[test]
fn people_may_what_their_roles_say() -> Outcome {
    story("people", async |shop| {
        shop.install()?;
        shop.form().await?;
        bind(shop).await?;
        shop.expect(true, "view", "list", "").await?;
        shop.expect(true, "view", "get", "status").await?;
        shop.expect(false, "view", "patch", "").await?;
        for user in ["edit", "admin"] {
            for verb in ["get", "watch", "create", "update", "patch", "delete"] {
                shop.expect(true, user, verb, "").await?;
            }
            shop.expect(true, user, "patch", "scale").await?;
            shop.expect(false, user, "update", "status").await?;
        }
        whoever_decides_needs_exec().await
    })
}

/// Users are called like their role. `groups-only` writes groups and ConfigMaps, and has no right to execute; `scaler` only scales.
async fn bind(shop: &Shop) -> Result<()> {
    let rules = json!([
        {"apiGroups": ["tanist.dev"], "resources": ["replicagroups"], "verbs": ["get", "list", "create", "update", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "update", "patch"]}
    ]);
    let labels = json!({"app.kubernetes.io/name": "tanist"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "groups-only", "labels": labels}, "rules": rules});
    kubectl_given(&role.to_string(), &["apply", "-f", "-"])?;
    for user in ["view", "edit", "admin", "groups-only"] {
        in_shop(&["create", "rolebinding", user, "--clusterrole", user, "--user", user])?;
    }
    in_shop(&["create", "role", "scaler", "--verb=get,patch,update", "--resource=replicagroups.tanist.dev/scale"])?;
    in_shop(&["create", "rolebinding", "scaler-sees", "--clusterrole", "tanist-view", "--user", "scaler"])?;
    in_shop(&["create", "rolebinding", "scaler", "--role", "scaler", "--user", "scaler"])?;
    until("aggregated roles", 30, async || shop.may("admin", "patch", "").await).await
}

/// With deploy/admission, whoever writes groups and policies needs pods/exec; Kubernetes, operator and scalers are not held up.
async fn whoever_decides_needs_exec() -> Result<()> {
    kubectl(&["apply", "-k", &place("deploy/admission")])?;
    // They work some moments after they were applied.
    until("the admission policies", 30, async || {
        refused(in_shop(&["annotate", "rg", "register", "tried=now", "--dry-run=server", "--as", "groups-only"]))?;
        refused(dry_policy("mine"))?;
        Ok(true)
    })
    .await?;
    let mut changed = example()?;
    merge(&mut changed, json!({"spec": {"resyncIntervalSeconds": 40}}));
    let apply = ["apply", "-n", SPACE, "--as", "groups-only", "-f", "-"];
    refused(kubectl_given(&changed.to_string(), &apply)).context("who may not execute changed what is executed")?;
    let mut other = example()?;
    merge(&mut other, json!({"metadata": {"name": "other"}}));
    refused(create(&other, Some("groups-only"))).context("who may not execute made a group")?;
    refused(create(&policy("mine"), Some("groups-only"))).context("who may not execute made a policy")?;
    let plain = ["create", "configmap", "plain", "--from-literal=a=b", "--as", "groups-only"];
    in_shop(&plain).context("a ConfigMap that is no policy was refused")?;
    let label = |name: &str, label: &str| in_shop(&["label", "configmap", name, label, "--as", "groups-only"]);
    refused(label("plain", "tanist.dev/policy=true")).context("who may not execute made a ConfigMap a policy")?;
    create(&policy("mine"), Some("edit")).context("who may execute was refused a policy")?;
    refused(label("mine", "tanist.dev/policy-")).context("who may not execute took a policy away")?;
    let patch = ["patch", "configmap", "mine", "-p", r#"{"data": {"a": "c"}}"#, "--as", "groups-only"];
    refused(in_shop(&patch)).context("who may not execute changed a policy")?;
    let retry = ["annotate", "rg", "register", "tanist.dev/retry=1", "--overwrite", "--as", "edit"];
    in_shop(&retry).context("who may execute was refused")?;
    create(&policy("copy"), Some("system:serviceaccount:tanist-system:tanist"))
        .context("the operator cannot copy a policy")?;
    in_shop(&["scale", "rg", "register", "--replicas=3", "--as", "scaler"]).context("scaling was refused")?;
    finalizers_go()?;
    kubectl(&["delete", "-k", &place("deploy/admission")]).map(drop)
}

/// Kubernetes itself removes finalizers, without pods/exec.
fn finalizers_go() -> Result<()> {
    let mut other = example()?;
    merge(&mut other, json!({"metadata": {"name": "other"}, "spec": {"replicas": 0, "primaries": 1}}));
    create(&other, None)?;
    in_shop(&["delete", "rg", "other", "--cascade=foreground", "--wait=true", "--timeout=60s"])
        .context("a group cannot be deleted any more")?;
    Ok(())
}

fn create(object: &Value, user: Option<&str>) -> Result<String> {
    let whose: Vec<&str> = user.iter().flat_map(|user| ["--as", user]).collect();
    kubectl_given(&object.to_string(), &[&["create", "-n", SPACE, "-f", "-"][..], &whose].concat())
}

fn dry_policy(name: &str) -> Result<String> {
    let create = ["create", "-n", SPACE, "--dry-run=server", "--as", "groups-only", "-f", "-"];
    kubectl_given(&policy(name).to_string(), &create)
}

fn policy(name: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"tanist.dev/policy": "true"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
}

/// It was refused for the right reason.
fn refused(tried: Result<String>) -> Result<()> {
    let said = tried.err().context("it was taken")?;
    let said = format!("{said:#}");
    ensure!(
        said.contains("needs the right to create pods/exec in namespace shop"),
        "refused for another reason: {said}"
    );
    Ok(())
}

impl Shop {
    /// Whether that user may do this with groups, or with their part of that name.
    async fn may(&self, user: &str, verb: &str, part: &str) -> Result<bool> {
        let attributes = ResourceAttributes {
            namespace: Some(SPACE.into()),
            group: Some("tanist.dev".into()),
            resource: Some("replicagroups".into()),
            subresource: Some(part.to_owned()).filter(|part| !part.is_empty()),
            verb: Some(verb.into()),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.into()),
                groups: Some(vec!["system:authenticated".into()]),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        Ok(reviews.create(&PostParams::default(), &review).await?.status.is_some_and(|status| status.allowed))
    }

    async fn expect(&self, wanted: bool, user: &str, verb: &str, part: &str) -> Result<()> {
        let found = self.may(user, verb, part).await?;
        ensure!(found == wanted, "may {user} {verb} groups {part}? {found}, and {wanted} was expected");
        Ok(())
    }
}
