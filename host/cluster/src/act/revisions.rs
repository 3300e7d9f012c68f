//! Stores the group's templates, each as a `ControllerRevision`, as the controllers of Kubernetes do with theirs (E3): for `tanist history`, `diff` and `rollback`.
//!
//! They are written beside the rounds, and only when something changed that this process has seen: a group that is at rest costs no request. The one to which pods would go back is never deleted.
use super::upkeep::{Task, begin};
use super::writes::{Applying, gone, write};
use super::{Error, WRITE_SECONDS};
use crate::cluster::{Fence, Kind, Write};
use crate::context::Context;
use crate::crash;
use crate::objects::{revision, revision_name};
use crate::observe::{Kept, Numbered, Observed, applied_hash, kept};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tanist_api::{ANNOTATION_APPLIED, ANNOTATION_CAUSE};
use tanist_core::snapshot::Group;

/// Begins to store the present template, if it is not stored already, and to delete the oldest ones beyond the limit.
///
/// # Errors
/// Why that failed the last time.
pub fn keep(ctx: &Arc<Context>, observed: &Observed) -> Result<(), Error> {
    let group = &observed.snapshot.group;
    let Some(template) = observed.template.clone().filter(|_| !group.paused && !ctx.is_closing()) else {
        return Ok(());
    };
    let keeping = gist(&template);
    if ctx.hints.with_group(&group.uid, |hints| hints.kept.as_ref() == Some(&keeping)) {
        return Ok(());
    }
    let task = Task { key: "revisions".into(), desired_hash: keeping.clone(), wakes: false };
    let (keeper, group) = (ctx.clone(), group.clone());
    begin(ctx, observed, task, async move {
        bring(&keeper, &group, &template).await?;
        keeper.hints.with_group(&group.uid, |hints| hints.kept = Some(keeping));
        Ok(())
    })
}

/// All that decides what is stored, as one text.
fn gist(template: &Numbered) -> String {
    let object = &template.group;
    let cause = object.metadata.annotations.as_ref().and_then(|a| a.get(ANNOTATION_CAUSE));
    let limit = object.spec.update.revision_history_limit;
    format!("{} {} {:?} {:?} {limit} {cause:?}", template.hash, template.number, template.in_use, template.good)
}

/// Stores the present template under its number and deletes what is too old.
async fn bring(ctx: &Context, group: &Group, template: &Numbered) -> Result<(), Error> {
    let object = &template.group;
    let what = || "list the ControllerRevisions of the group".to_owned();
    let listing = tokio::time::timeout(Duration::from_secs(WRITE_SECONDS), kept(&*ctx.cluster, group)).await;
    let there = listing.map_err(|_| Error::Silent(what()))?.map_err(|error| Error::Write(what(), error))?;
    // The group's UID and name were read from the API server, so this cannot fail; what is not stored costs only history.
    let Ok(manifest) = revision(object, &ctx.settings, &template.hash, template.number) else { return Ok(()) };
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let live = there.iter().find(|kept| kept.meta.name.as_ref() == Some(&name));
    if !is_as(live, &manifest) {
        crash::write("keep", &name).await;
        let applying = Applying { ctx, namespace: &group.namespace, kind: Kind::Revision, name: &name };
        applying.bring(&manifest, live.and_then(|kept| kept.meta.resource_version.as_deref())).await?;
    }
    let good = template.good.as_ref().map(|hash| revision_name(&group.name, hash));
    let needed = [Some(name), good].into_iter().flatten().collect();
    for old in too_old(&there, &needed, &template.in_use, object.spec.update.revision_history_limit) {
        forget(ctx, group, old).await?;
    }
    Ok(())
}

/// Whether the template is stored as the manifest says.
fn is_as(live: Option<&Kept>, manifest: &Value) -> bool {
    let annotations = live.and_then(|kept| kept.meta.annotations.as_ref());
    annotations.and_then(|notes| notes.get(ANNOTATION_APPLIED)) == Some(&applied_hash(manifest))
}

/// The oldest of the former templates that are more than the limit. Those that pods still run stay and are not counted.
fn too_old<'k>(there: &'k [Kept], needed: &BTreeSet<String>, in_use: &BTreeSet<u64>, limit: u32) -> Vec<&'k Kept> {
    let is_needed = |kept: &Kept| kept.meta.name.as_ref().is_some_and(|name| needed.contains(name));
    let former = |kept: &&Kept| !is_needed(kept) && !in_use.contains(&kept.number);
    let former: Vec<_> = there.iter().filter(former).collect();
    let many = former.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    former.into_iter().take(many).collect()
}

async fn forget(ctx: &Context, group: &Group, kept: &Kept) -> Result<(), Error> {
    let name = kept.meta.name.clone().unwrap_or_default();
    let uid = kept.meta.uid.clone().unwrap_or_default();
    let what = format!("delete ControllerRevision {name}");
    crash::write("forget", &name).await;
    let revision = Fence { namespace: group.namespace.clone(), name, uid, version: kept.meta.resource_version.clone() };
    write(ctx, what, Write::Forget { revision }).await.map(drop).or_else(gone)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;
    use crate::act::act;
    use crate::objects::template_hash;
    use crate::report;
    use crate::stub::{Answer, GROUP, LOADED, SET, Silent, Stub, pod};
    use http::Method;
    use kube::core::ObjectMeta;
    use serde_json::json;
    use tanist_api::{ANNOTATION_REVISION, ANNOTATION_TEMPLATE, ReplicaGroup};
    use tanist_core::contract::Role;
    use tanist_core::decide::decide;

    const KEPT: &str = "/apis/apps/v1/namespaces/ns/controllerrevisions";

    fn image(stub: &Stub, image: &str) {
        stub.change(GROUP, |group| {
            group["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
            group["metadata"]["generation"] = (group["metadata"]["generation"].as_i64().unwrap() + 1).into();
        });
    }

    /// What rounds did with ControllerRevisions.
    #[derive(Default)]
    struct Rounds {
        /// Writes: method and the last two parts of the path.
        written: Vec<(Method, String)>,
        /// How many requests only read.
        reads: usize,
        /// The errors of the last round.
        errors: Vec<String>,
    }

    /// Plays rounds until what they begin has ended.
    async fn rounds(stub: &Stub, ctx: &Arc<Context>) -> Rounds {
        let mut all = Rounds::default();
        for _ in 0..6 {
            let observed = stub.observe(ctx, &[Role::Primary, Role::Secondary]).await;
            let plan = decide(&observed.snapshot, &Silent);
            let said = report::derive(&observed.snapshot, &plan, LOADED, &[]);
            all.errors = act(ctx, &observed, &plan, &said).await.errors.iter().map(ToString::to_string).collect();
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            for request in stub.seen().into_iter().filter(|request| request.path.starts_with(KEPT)) {
                match request.method {
                    Method::GET => all.reads += 1,
                    method => all.written.push((method, request.path.split('/').skip(6).collect::<Vec<_>>().join("/"))),
                }
            }
        }
        all
    }

    /// The numbers that are kept, with their images.
    fn there(stub: &Stub) -> Vec<(u64, String)> {
        let mut there: Vec<_> = stub
            .below(KEPT)
            .iter()
            .map(|o| {
                (
                    o["revision"].as_u64().unwrap(),
                    o["data"]["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        there.sort();
        there
    }

    /// What another process did to a stored template after it was listed.
    type Meanwhile = fn(&Stub, &str);

    /// Each of these makes a late write one of something else.
    const CHANGES: [Meanwhile; 2] = [
        |stub, path| stub.change(path, |_| {}),
        |stub, path| stub.change(path, |kept| kept["metadata"]["uid"] = "another".into()),
    ];

    /// Forgets the stored template, or keeps it under another number, after that: how it ended, and what was there before and afterwards.
    async fn late(forgets: bool, meanwhile: Meanwhile) -> (Result<(), Error>, Option<Value>, Option<Value>) {
        let stub = Stub::new();
        let ctx = stub.context();
        rounds(&stub, &ctx).await;
        let observed = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await;
        let group = &observed.snapshot.group;
        let listed = kept(&*ctx.cluster, group).await.unwrap();
        let path = format!("{KEPT}/{}", listed[0].meta.name.as_ref().unwrap());
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": stub.below(KEPT)});
        meanwhile(&stub, &path);
        let before = stub.get(&path);
        let done = if forgets {
            forget(&ctx, group, &listed[0]).await
        } else {
            stub.answer(Method::GET, "/controllerrevisions", Answer::Before(list));
            let template = Numbered { number: 2, ..observed.template.clone().unwrap() };
            bring(&ctx, group, &template).await
        };
        (done, before, stub.get(&path))
    }

    fn of(kept: &[(u64, &str)]) -> Vec<(u64, String)> {
        kept.iter().map(|(number, image)| (*number, (*image).to_owned())).collect()
    }

    // E3: each template is kept once under a growing number, one that comes back under a new one, and a group at rest writes nothing.
    #[tokio::test]
    async fn each_template_is_kept_under_its_number() {
        let stub = Stub::new();
        let ctx = stub.context();
        let first = rounds(&stub, &ctx).await;
        assert_eq!((first.written.len(), first.errors), (3, Vec::new()), "{:?}", first.written);
        assert_eq!(there(&stub), of(&[(1, "db:1")]));
        let note = stub.get(SET).unwrap()["metadata"]["annotations"][ANNOTATION_TEMPLATE].as_str().unwrap().to_owned();
        assert!(note.contains("\"number\":1"), "{note}");
        let rest = rounds(&stub, &ctx).await;
        assert_eq!((rest.written, rest.reads), (Vec::new(), 0), "a group at rest costs no request");
        image(&stub, "db:2");
        rounds(&stub, &ctx).await;
        assert_eq!(there(&stub), of(&[(1, "db:1"), (2, "db:2")]));
        image(&stub, "db:1");
        rounds(&stub, &ctx).await;
        assert_eq!(there(&stub), of(&[(2, "db:2"), (3, "db:1")]));
        // Another process looks once, and writes nothing.
        assert_eq!(rounds(&stub, &stub.context()).await.written, []);
    }

    // The numbers go on when the StatefulSet is lost, and a change of why is kept with the present template.
    #[tokio::test]
    async fn numbers_go_on_after_a_loss() {
        let stub = Stub::new();
        let ctx = stub.context();
        rounds(&stub, &ctx).await;
        image(&stub, "db:2");
        rounds(&stub, &ctx).await;
        stub.change(SET, |set| drop(set["metadata"].as_object_mut().unwrap().remove("annotations")));
        image(&stub, "db:3");
        stub.change(GROUP, |group| group["metadata"]["annotations"] = json!({ANNOTATION_CAUSE: "to three"}));
        rounds(&stub, &ctx).await;
        assert_eq!(there(&stub), of(&[(1, "db:1"), (2, "db:2"), (3, "db:3")]));
        let causes: Vec<_> =
            stub.below(KEPT).iter().map(|o| o["metadata"]["annotations"].get(ANNOTATION_CAUSE).cloned()).collect();
        assert_eq!(causes.iter().flatten().collect::<Vec<_>>(), [&json!("to three")]);
    }

    // Without the right to keep templates the group goes on, and its status says what is missing.
    #[tokio::test]
    async fn a_group_goes_on_without_the_right() {
        let stub = Stub::new();
        let ctx = stub.context();
        rounds(&stub, &ctx).await;
        image(&stub, "db:2");
        let group: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
        let name = format!("controllerrevisions/db-{}", &template_hash(&group)[..16]);
        stub.answer(Method::PATCH, &name, Answer::Fail(403, "Forbidden"));
        let Rounds { written, errors, .. } = rounds(&stub, &ctx).await;
        assert!(errors.iter().any(|e| e.contains("apply ControllerRevision db-")), "{errors:?}");
        assert_eq!(written, [(Method::PATCH, name)], "it is not tried again at once");
        let note = stub.get(SET).unwrap()["metadata"]["annotations"][ANNOTATION_TEMPLATE].as_str().unwrap().to_owned();
        assert!(note.contains("\"number\":2"), "{note}");
    }

    // While the group is paused nothing is written.
    #[tokio::test]
    async fn a_paused_group_keeps_nothing_new() {
        let stub = Stub::new();
        let ctx = stub.context();
        rounds(&stub, &ctx).await;
        stub.change(GROUP, |group| {
            group["spec"]["paused"] = true.into();
            group["metadata"]["annotations"] = json!({ANNOTATION_CAUSE: "later"});
        });
        assert_eq!(rounds(&stub, &ctx).await.written, []);
        stub.change(GROUP, |group| group["spec"]["paused"] = false.into());
        assert_eq!(rounds(&stub, &ctx).await.written.len(), 1);
    }

    // The oldest go first; what pods run is kept beside the limit.
    #[test]
    fn the_oldest_are_forgotten() {
        let kept = |number: u64| Kept {
            number,
            meta: ObjectMeta { name: Some(format!("db-{number}")), ..ObjectMeta::default() },
        };
        let there: Vec<_> = (1..=6).map(kept).collect();
        let gone = |limit, in_use: &[u64]| {
            let in_use = in_use.iter().copied().collect();
            too_old(&there, &BTreeSet::from(["db-6".to_owned()]), &in_use, limit)
                .iter()
                .map(|kept| kept.number)
                .collect::<Vec<_>>()
        };
        assert_eq!(gone(10, &[]), Vec::<u64>::new());
        assert_eq!(gone(3, &[]), [1, 2]);
        assert_eq!(gone(3, &[1]), [2]);
        assert_eq!(gone(0, &[2, 5]), [1, 3, 4], "the present one and those that pods run are always kept");
        let needed = ["db-6", "db-2"].map(str::to_owned).into();
        assert!(
            too_old(&there, &needed, &BTreeSet::new(), 0).iter().all(|kept| kept.number != 2),
            "pods may go back to it"
        );
    }

    // On the way to the API server: what is too old is deleted by its UID and version.
    #[tokio::test]
    async fn what_is_too_old_is_deleted_by_uid_and_version() {
        let stub = Stub::new();
        stub.change(GROUP, |group| group["spec"]["update"] = json!({"revisionHistoryLimit": 1}));
        let ctx = stub.context();
        for number in 1..=3 {
            image(&stub, &format!("db:{number}"));
            rounds(&stub, &ctx).await;
        }
        assert_eq!(there(&stub), of(&[(2, "db:2"), (3, "db:3")]));
        assert!(stub.get(&pod(0)).is_some());
        // A revision of the StatefulSet's controller, or of another group, is none of ours.
        for owner in ["set", "another group"] {
            let other = json!({
                "metadata": {"labels": {"tanist.dev/template-of": "db"}, "annotations": {ANNOTATION_REVISION: "1"}, "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": owner, "controller": true
                }]},
                "revision": 9, "data": {"spec": {"template": {"spec": {"containers": [{"image": "other"}]}}}}
            });
            stub.set_object(&format!("{KEPT}/db-{}", owner.len()), other);
        }
        image(&stub, "db:4");
        rounds(&stub, &ctx).await;
        assert_eq!(there(&stub), of(&[(3, "db:3"), (4, "db:4"), (9, "other"), (9, "other")]));
    }

    // S5, E3: a stored template that another process changed, stored anew or deleted after it was listed is not written.
    #[tokio::test]
    async fn a_template_that_is_kept_late_changes_nothing() {
        let (done, before, now) = late(false, |_, _| {}).await;
        assert!(done.is_ok() && before != now, "in time it is kept: {done:?}");
        for meanwhile in CHANGES.into_iter().chain([Stub::remove as Meanwhile]) {
            let (done, before, now) = late(false, meanwhile).await;
            assert!(matches!(done, Err(Error::Overtaken(_))), "{done:?}");
            assert_eq!(before, now);
        }
    }

    // S5, E3: nor is one that another process stored first written over. What it stored the same is no conflict.
    #[tokio::test]
    async fn a_template_that_another_process_stored_first_stays() {
        let stub = Stub::new();
        let ctx = stub.context();
        rounds(&stub, &ctx).await;
        let observed = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await;
        let template = observed.template.clone().unwrap();
        for (number, is_late) in [(template.number, false), (template.number + 1, true)] {
            let nothing = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []});
            stub.answer(Method::GET, "/controllerrevisions", Answer::Before(nothing));
            let done = bring(&ctx, &observed.snapshot.group, &Numbered { number, ..template.clone() }).await;
            assert_eq!(matches!(done, Err(Error::Overtaken(_))), is_late, "{done:?}");
            assert_eq!(done.is_err(), is_late, "{done:?}");
            assert_eq!(there(&stub), of(&[(1, "db:1")]));
        }
    }

    // S5, E3: nor is it deleted then. The UID counts by itself, too: another object of the same version, which no API server has, stays.
    #[tokio::test]
    async fn a_late_deletion_spares_a_template_that_changed() {
        let (done, before, now) = late(true, |_, _| {}).await;
        assert!(done.is_ok() && before.is_some() && now.is_none(), "in time it is deleted: {done:?}");
        let anew: Meanwhile = |stub, path| stub.replace(path, "another");
        for meanwhile in CHANGES.into_iter().chain([anew]) {
            let (done, before, now) = late(true, meanwhile).await;
            assert!(matches!(done, Err(Error::Overtaken(_))), "{done:?}");
            assert!(now.is_some());
            assert_eq!(before, now);
        }
        assert!(late(true, Stub::remove).await.0.is_ok(), "what is gone needs no deletion");
    }
}
