//! `tanist rollback`: a former template becomes the group's template again, as any other change of it.
use super::super::find::{find, observed};
use super::super::output::{aside, print};
use super::super::restart::{progress, refusal};
use super::super::trouble::failed;
use super::super::wait::until_done;
use super::super::{Session, color, me};
use super::diff::{present, text};
use super::{Revision, Revisions};
use anyhow::bail;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{from_value, json};
use std::cmp::Ordering;
use tanist_api::view::View;
use tanist_api::{ANNOTATION_CAUSE, ReplicaGroup};
use tanist_core::version;

/// The arguments of `tanist rollback`.
#[derive(Debug, Clone, clap::Args)]
pub struct Rollback {
    /// The name of the group, in the namespace of the command.
    pub group: String,
    /// The revision whose template is to be the group's again. Default: the latest that is not the present one.
    #[arg(long, value_name = "REVISION")]
    pub to: Option<u64>,
    /// Only show what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// How many seconds to wait for the end. It goes on afterwards.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub timeout: u64,
}

/// Why nothing can be rolled back to that template. `None`: it can.
fn refused(group: &ReplicaGroup, revisions: &Revisions, to: &Revision) -> Option<String> {
    if let Err(why) = observed(&View::new(group)) {
        return Some(why);
    }
    if let Some(present) = &group.spec.version
        && to.version.as_ref().and_then(|own| version::compare(own, present)) != Some(Ordering::Equal)
    {
        let (number, own) = (to.number, to.version.as_deref().unwrap_or("that is not known"));
        return Some(format!(
            "revision {number} is of a version {own}, and spec.version is {present}: change spec.template and spec.version together; data that was converted stays so"
        ));
    }
    revisions.is_same(to).then(|| format!("revision {} is the present template", to.number))
}

/// Makes a former template the group's again, and shows the progress until every member has its new pod and is in its role.
///
/// # Errors
/// Why it is refused, or what is still awaited after so many seconds.
pub async fn rollback(session: &Session, asked: &Rollback) -> anyhow::Result<()> {
    let (groups, name) = (session.groups(), asked.group.as_str());
    let group = find(&groups, name).await?;
    let revisions = Revisions::read(session, &group).await?;
    let to = revisions.get(asked.to)?;
    if let Some(why) = refused(&group, &revisions, to) {
        bail!("nothing was changed: {why}");
    }
    let number = to.number;
    let change = text(
        (&revisions.present, &present(&revisions)),
        (&to.template, &format!("revision {number}")),
        color::is_on(),
    )?;
    if asked.dry_run {
        return print(&change);
    }
    aside(&change);
    let changed = write(&groups, &group, &revisions, to).await?;
    if let Some(why) = refusal(&changed) {
        return print(&format!("spec.template is that of revision {number} again. No pod is replaced now: {why}\n"));
    }
    let overdue = format!(
        "not every member has the template of revision {number} after {} s; the update goes on all the same",
        asked.timeout
    );
    let generation = changed.metadata.generation;
    let took = until_done(&groups, name, asked.timeout, &overdue, |group| progress(group, generation)).await?;
    print(&format!("every member has the template of revision {number} again, after {:.1} s\n", took.as_secs_f64()))
}

fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

/// Writes the template, unless the group's is another one by now; with the reason for which it was there, as kubectl does.
async fn write(
    groups: &Api<ReplicaGroup>,
    group: &ReplicaGroup,
    revisions: &Revisions,
    to: &Revision,
) -> anyhow::Result<ReplicaGroup> {
    let mut steps = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": group.metadata.uid}),
        json!({"op": "test", "path": "/spec/template", "value": revisions.present}),
        json!({"op": "replace", "path": "/spec/template", "value": to.template}),
    ];
    if let Some(version) = &group.spec.version {
        steps.push(json!({"op": "test", "path": "/spec/version", "value": version}));
    }
    if group.annotations().contains_key(ANNOTATION_CAUSE) {
        let cause = to.cause.as_deref().unwrap_or_default();
        steps.push(
            json!({"op": "replace", "path": "/metadata/annotations/kubernetes.io~1change-cause", "value": cause}),
        );
    }
    let (name, patch) = (group.name_any(), Patch::Json::<()>(from_value(json!(steps))?));
    match groups.patch(&name, &PatchParams::default(), &patch).await {
        Ok(changed) => Ok(changed),
        Err(error) => {
            // An API server does not say which step it refused.
            let now = if is_invalid(&error) { groups.get(&name).await.ok() } else { None };
            let shown = |group: &ReplicaGroup| (group.uid(), json!(group.spec.template), group.spec.version.clone());
            match now.filter(|now| shown(now) != shown(group)) {
                Some(_) => {
                    bail!("nothing was changed: spec.template was changed meanwhile; look again: {} diff {name}", me())
                }
                None => Err(failed(&format!("change group {name}"), &error)),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::super::tests::{group, kept, some, template};
    use super::*;
    use crate::cli::example;
    use crate::mock;
    use serde_json::Value;

    fn asked(to: Option<u64>, dry_run: bool) -> Rollback {
        Rollback { group: "db".into(), to, dry_run, timeout: 1 }
    }

    #[test]
    fn the_present_template_is_refused() {
        let all = some();
        assert_eq!(refused(&group("db:10"), &all, &all.kept[0]), None);
        assert_eq!(refused(&group("db:10"), &all, &all.kept[2]).unwrap(), "revision 10 is the present template");
        let mut versioned = group("db:10");
        versioned.spec.version = Some("17".into());
        assert!(refused(&versioned, &all, &all.kept[0]).unwrap().contains("that is not known"));
        let former = Revision { version: Some("15".into()), ..all.kept[0].clone() };
        assert!(refused(&versioned, &all, &former).unwrap().starts_with("revision 2 is of a version 15"));
        let same = Revision { version: Some("17.0".into()), ..former };
        assert_eq!(refused(&versioned, &all, &same), None);
        assert!(refused(&example(&json!({"status": null})), &all, &all.kept[0]).unwrap().contains("no operator"));
    }

    /// The group has `after` once the change was asked for.
    fn server(answer: Option<(u16, Value)>, after: &'static str) -> (Session, mock::Asked) {
        let list = json!({"apiVersion": "apps/v1", "kind": "ControllerRevisionList", "metadata": {}, "items": [
            kept(1, "db:1", "u"), kept(2, "db:2", "u")
        ]});
        let mut image = "db:2";
        let (client, requests) = mock::server(move |method, path, _| match method {
            "PATCH" => {
                image = after;
                answer.clone()
            }
            _ if path.contains("/controllerrevisions") => Some((200, list.clone())),
            _ => {
                let mut there = serde_json::to_value(group(image)).unwrap();
                there["metadata"]["annotations"] = json!({ANNOTATION_CAUSE: "to db:2"});
                Some((200, there))
            }
        });
        (Session::over(client, "shop"), requests)
    }

    // The former template replaces the present one as a whole, and only if that is still the present one of that group. Nothing else changes. An API server does not say that a comparison failed.
    #[tokio::test]
    async fn the_template_is_replaced_if_it_is_still_the_same() {
        let words = "the server rejected our request due to an error in our request";
        for (after, why) in [("db:3", "spec.template was changed meanwhile"), ("db:2", words)] {
            let (session, requests) = server(mock::refusal(422, "Invalid", words), after);
            let said = rollback(&session, &asked(None, false)).await.unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
            let requests = requests.lock().unwrap();
            let patches: Vec<_> = requests.iter().filter(|r| r.0 == "PATCH").map(|r| r.2.clone()).collect();
            assert_eq!(
                patches,
                [json!([
                    {"op": "test", "path": "/metadata/uid", "value": "u"},
                    {"op": "test", "path": "/spec/template", "value": template("db:2")},
                    {"op": "replace", "path": "/spec/template", "value": template("db:1")},
                    {"op": "replace", "path": "/metadata/annotations/kubernetes.io~1change-cause", "value": "to db:1"},
                ])]
            );
        }
    }

    #[tokio::test]
    async fn a_dry_run_changes_nothing() {
        let (session, requests) = server(None, "db:2");
        rollback(&session, &asked(Some(1), true)).await.unwrap();
        assert!(requests.lock().unwrap().iter().all(|r| r.0 == "GET"));
    }

    // While nothing is replaced, for instance because the update is paused, the command says so and does not wait.
    #[tokio::test]
    async fn a_group_whose_pods_stay_is_not_waited_for() {
        let stopped =
            json!({"metadata": {"uid": "u"}, "spec": {"template": template("db:1"), "update": {"paused": true}}});
        let (session, _) = server(Some((200, serde_json::to_value(example(&stopped)).unwrap())), "db:1");
        rollback(&session, &asked(Some(1), false)).await.unwrap();
    }
}
