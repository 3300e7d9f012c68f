//! Finds the pods that run the group's `spec.template`, the numbers of the templates ([`TemplateNote`]), and the template to which pods go back.
use super::World;
use super::convert::{LABEL_REVISION, owned_by};
use crate::cluster::{Cluster, Error, Kind};
use crate::context::Context;
use crate::objects::{Numbers, TemplateNote, desired, hash_of, revision_name};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tanist_api::spec::Template;
use tanist_api::{
    ANNOTATION_CAUSE, ANNOTATION_CONFIG, ANNOTATION_POD_REVISION, ANNOTATION_REVISION, ANNOTATION_TEMPLATE,
    ReplicaGroup,
};
use tanist_core::record::Record;
use tanist_core::snapshot::{Former, Group};

/// The template of a group as the StatefulSet has it, for those who store it.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbered {
    /// The group with that template, which is not `spec.template` after that was given up.
    pub group: Arc<ReplicaGroup>,
    /// The template's hash.
    pub hash: String,
    /// Its number.
    pub number: u64,
    /// The numbers of other templates that pods still run.
    pub in_use: BTreeSet<u64>,
    /// The hash of the template to which pods would go back.
    pub good: Option<String>,
}

/// How long a round waits for numbers and former templates: a group goes on without them.
const READ: Duration = Duration::from_secs(1);

/// How long numbers that could not be read are not asked for again.
const PAUSE: Duration = Duration::from_secs(60);

/// A template that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its number.
    pub number: u64,
    /// The metadata of the `ControllerRevision` that keeps it.
    pub meta: ObjectMeta,
}

/// The stored templates of a group, by number.
///
/// # Errors
/// When they cannot be read, for instance without the right to.
pub async fn kept(cluster: &dyn Cluster, group: &Group) -> Result<Vec<Kept>, Error> {
    let list = cluster.list_plain(Kind::Revision, &group.namespace, &group.name).await?;
    // A group that was deleted and created anew under the name owns none of its predecessor's.
    let ours = list.iter().filter(|object| owned_by(&object.metadata, &group.uid));
    let mut kept: Vec<_> = ours
        .filter_map(|object| {
            let number = object.annotations().get(ANNOTATION_REVISION)?.parse().ok()?;
            Some(Kept { number, meta: object.metadata.clone() })
        })
        .collect();
    kept.sort_by_key(|kept| kept.number);
    Ok(kept)
}

/// The template before the one that is tried, or was given up.
#[derive(Debug, Clone)]
pub(super) enum Past {
    /// Nobody asks for it.
    Unasked,
    /// The group with that template; pods can be made from it.
    Kept(Arc<ReplicaGroup>),
    /// It is not stored, or no pod can be made from it with the present commands.
    Lost,
    /// It could not be read.
    Unreadable(Error),
}

impl Past {
    /// What the core has to know of it.
    pub(super) fn former(&self) -> Former {
        match self {
            Past::Unasked | Past::Unreadable(_) => Former::Unknown,
            Past::Kept(_) => Former::Kept,
            Past::Lost => Former::Lost,
        }
    }
}

/// A stored template, and the annotations that belong to it: why the group was changed to it, and its configuration.
pub type FormerTemplate = (Template, BTreeMap<&'static str, String>);

/// Annotations of a `ControllerRevision` that come back with its template.
const NOTES: [&str; 2] = [ANNOTATION_CAUSE, ANNOTATION_CONFIG];

/// Looks for the template before `spec.template`, as soon as that may be given up.
pub(super) async fn past(ctx: &Context, object: &ReplicaGroup, group: &Group, record: &Record) -> Past {
    let asked = record.fallback.as_ref().filter(|f| group.update.rolls_back && f.good != group.update.template);
    let Some(good) = asked.map(|fallback| fallback.good.as_str()) else { return Past::Unasked };
    let known = ctx.hints.with_group(&group.uid, |hints| hints.former.clone()).filter(|(hash, _)| hash == good);
    let found = match known {
        Some((_, found)) => found,
        None => match former(&*ctx.cluster, group, good).await {
            Ok(Some(found)) => found,
            Ok(None) => return Past::Lost,
            Err(error) => return Past::Unreadable(error),
        },
    };
    ctx.hints.with_group(&group.uid, |hints| hints.former = Some((good.to_owned(), found.clone())));
    // Only the configuration is another one, and what it was before nobody knows any more.
    if found.0 == object.spec.template {
        return Past::Lost;
    }
    let past = with_former(object, found);
    let makes_pods = desired(&past, group.replicas, &ctx.settings, &TemplateNote::default()).is_ok();
    if makes_pods { Past::Kept(Arc::new(past)) } else { Past::Lost }
}

/// The group with a former template, which comes back for the reason for which it was there.
fn with_former(object: &ReplicaGroup, (template, notes): FormerTemplate) -> ReplicaGroup {
    let mut past = ReplicaGroup::clone(object);
    past.spec.template = template;
    let annotations = past.metadata.annotations.get_or_insert_default();
    annotations.retain(|key, _| !NOTES.contains(&key.as_str()));
    annotations.extend(notes.into_iter().map(|(key, note)| (key.to_owned(), note)));
    past
}

/// The group with a template that is stored. `None`: it is not, or could not be read.
pub(super) async fn stored(ctx: &Context, object: &ReplicaGroup, hash: &str) -> Option<ReplicaGroup> {
    let group = tanist_api::validate::group(object, &ctx.cluster_domain).ok()?;
    let found = former(&*ctx.cluster, &group, hash).await.ok()??;
    Some(with_former(object, found))
}

/// Reads a stored template. `None`: it is not stored.
async fn former(cluster: &dyn Cluster, group: &Group, hash: &str) -> Result<Option<FormerTemplate>, Error> {
    let name = revision_name(&group.name, hash);
    let reading = cluster.get_plain(Kind::Revision, &group.namespace, &name);
    let found = tokio::time::timeout(READ, reading).await.map_err(|_| silent())??;
    let Some(object) = found.filter(|object| owned_by(&object.metadata, &group.uid)) else { return Ok(None) };
    let template = object.data.pointer("/data/spec/template").cloned();
    let template = template.and_then(|template| serde_json::from_value::<Template>(template).ok());
    let notes: BTreeMap<_, _> =
        NOTES.iter().filter_map(|key| Some((*key, object.annotations().get(*key)?.clone()))).collect();
    let config = notes.get(ANNOTATION_CONFIG).map(String::as_str);
    Ok(template.filter(|template| hash_of(template, config) == hash).map(|template| (template, notes)))
}

fn silent() -> Error {
    Error::Unreachable(format!("no answer within {} s", READ.as_secs()))
}

/// The numbers that are taken.
fn numbers(kept: &[Kept]) -> Numbers {
    let latest = kept.last();
    let hash = latest.and_then(|kept| kept.meta.annotations.as_ref()?.get(ANNOTATION_TEMPLATE).cloned());
    Numbers { highest: latest.map_or(0, |kept| kept.number), latest: hash.unwrap_or_default() }
}

impl World {
    /// Reads the numbers of the stored templates when the note of the StatefulSet has to change. Absent: they are not needed, or could not be read a moment ago.
    ///
    /// # Errors
    /// Why they cannot be read. A group goes on without them.
    pub(super) async fn read_numbers(&self, ctx: &Context, group: &Group) -> Result<Option<Numbers>, Error> {
        if !TemplateNote::needs_numbers(self.live_note().as_ref(), &self.template) {
            return Ok(None);
        }
        let failed = ctx.hints.with_group(&group.uid, |hints| hints.unnumbered.clone());
        if let Some((_, error)) = failed.filter(|(at, _)| ctx.clock.moment().since(*at) < PAUSE) {
            return Err(error);
        }
        let reading = tokio::time::timeout(READ, kept(&*ctx.cluster, group)).await;
        let read = reading.unwrap_or_else(|_| Err(silent()));
        let failed = read.as_ref().err().map(|error| (ctx.clock.moment(), error.clone()));
        ctx.hints.with_group(&group.uid, |hints| hints.unnumbered = failed);
        read.map(|kept| Some(numbers(&kept)))
    }

    /// The note that the StatefulSet should have.
    pub(super) fn template_note(&self, kept: Option<&Numbers>) -> TemplateNote {
        let (live, hash) = (self.live_note(), self.template.clone());
        TemplateNote::next(live.as_ref(), hash, self.revisions(), self.newest_revision(), kept)
    }

    /// Whether a pod was made from a `spec.template` that was changed since. `live`: the note on the StatefulSet.
    pub(super) fn has_older_template(&self, pod: &Pod, live: Option<&TemplateNote>) -> bool {
        // The operator writes on the pods that it makes of which template they are: one that was made late, or whose Service was deleted since, is of no other.
        if let (Some(_), Some(own)) = (&self.makes_pods, pod.annotations().get(ANNOTATION_TEMPLATE)) {
            return *own != self.template || live.is_none_or(|note| note.hash != self.template);
        }
        let known = live.zip(pod.labels().get(LABEL_REVISION));
        known.is_some_and(|(note, revision)| note.is_older(&self.template, revision, self.newest_revision()))
    }

    /// The number of the template from which a pod was made.
    pub(super) fn template_number(&self, pod: &Pod, live: Option<&TemplateNote>) -> Option<u64> {
        live?.number_of(pod.labels().get(LABEL_REVISION)?, self.newest_revision())
    }

    /// The template that the StatefulSet has, which is that of the group. `None`: it has not the present one yet, or that has no number.
    pub(super) fn numbered(&self, group: Arc<ReplicaGroup>, record: &Record) -> Option<Numbered> {
        let live = self.live_note().filter(|live| live.hash == self.template && live.number > 0)?;
        let pods = self.pods.iter().filter_map(|pod| self.template_number(pod, Some(&live)));
        let in_use = pods.filter(|number| *number != live.number).collect();
        let good = record.fallback.as_ref().map(|fallback| fallback.good.clone());
        Some(Numbered { group, hash: live.hash, number: live.number, in_use, good })
    }

    /// The note that the StatefulSet has.
    pub(super) fn live_note(&self) -> Option<TemplateNote> {
        match &self.makes_pods {
            Some(_) => TemplateNote::read(self.annotations()?),
            None => TemplateNote::read(self.set.as_ref()?.annotations()),
        }
    }

    /// The revisions of the pods, and the newest revision of the StatefulSet.
    fn revisions(&self) -> impl Iterator<Item = String> {
        let pods = self.pods.iter().filter_map(|p| p.labels().get(LABEL_REVISION));
        let newest = self.set.iter().filter_map(|s| s.status.as_ref()?.update_revision.as_ref());
        let noted = self.annotations().and_then(|notes| notes.get(ANNOTATION_POD_REVISION));
        pods.chain(newest).chain(noted).cloned()
    }

    /// The revision of the StatefulSet's template as it is now. `None`: its controller has not seen that template yet.
    pub(super) fn newest_revision(&self) -> Option<&str> {
        if self.makes_pods.is_some() {
            return self.annotations()?.get(ANNOTATION_POD_REVISION).map(String::as_str);
        }
        let set = self.set.as_ref()?;
        let status = set.status.as_ref()?;
        let seen = status.observed_generation >= set.metadata.generation;
        status.update_revision.as_deref().filter(|_| seen)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use crate::context::Context;
    use crate::objects::{hash_of, revision_name, template_hash};
    use crate::observe::{Observed, observe};
    use crate::stub::{Answer, GROUP, SET, Stub, pod};
    use http::Method;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use tanist_api::{ANNOTATION_CAUSE, ANNOTATION_CONFIG, ANNOTATION_TEMPLATE, ReplicaGroup};
    use tanist_core::freshness::Ask;
    use tanist_core::snapshot::{Former, Snapshot};

    /// A group that runs, whose pods are of the revision `a`.
    fn stub() -> Stub {
        let stub = Stub::new();
        for ordinal in 0..2 {
            stub.change(&pod(ordinal), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "a".into());
        }
        controller(&stub, 1, "a");
        stub
    }

    /// Does what the StatefulSet's controller does: sets the observed generation and the newest revision.
    fn controller(stub: &Stub, generation: i64, revision: &str) {
        let status = json!({"observedGeneration": generation, "replicas": 2, "updateRevision": revision});
        stub.change(SET, |set| set["status"] = status);
    }

    async fn look(stub: &Stub) -> Snapshot {
        let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
        observe(&stub.context(), &seen, Ask::Recent, None).await.unwrap().snapshot
    }

    /// Applies the StatefulSet as the operator and the API server do.
    fn apply(stub: &Stub, s: &Snapshot, generation: i64) {
        let set = s.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
        let annotations = set.manifest["metadata"]["annotations"].clone();
        stub.change(SET, |live| {
            live["metadata"]["annotations"] = annotations;
            live["metadata"]["generation"] = generation.into();
        });
    }

    fn older(s: &Snapshot) -> Vec<bool> {
        s.members.iter().map(|m| m.pod.as_ref().unwrap().older_template).collect()
    }

    fn image(stub: &Stub, image: &str) {
        stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["image"] = image.into());
    }

    // Between the change and the first new pod, no pod ever counts as running the new template.
    #[tokio::test]
    async fn a_change_of_the_template_makes_all_pods_older_until_one_is_replaced() {
        let stub = stub();
        let first = look(&stub).await;
        assert_eq!(older(&first), [false, false]);
        apply(&stub, &first, 1);
        assert_eq!(older(&look(&stub).await), [false, false]);
        image(&stub, "db:2");
        let changed = look(&stub).await;
        assert_eq!(older(&changed), [true, true], "before anything is applied");
        apply(&stub, &changed, 2);
        assert_eq!(older(&look(&stub).await), [true, true], "before the StatefulSet's controller saw it");
        controller(&stub, 2, "b");
        assert_eq!(older(&look(&stub).await), [true, true]);
        stub.change(&pod(1), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "b".into());
        assert_eq!(older(&look(&stub).await), [true, false]);
    }

    // The StatefulSet of the previous release has no note, and what another version of the operator adds to the template is no change by the user.
    #[tokio::test]
    async fn an_upgrade_of_the_operator_makes_no_pod_older() {
        let stub = stub();
        let first = look(&stub).await;
        apply(&stub, &first, 2);
        controller(&stub, 2, "b");
        let upgraded = look(&stub).await;
        assert_eq!(older(&upgraded), [false, false]);
        assert!(upgraded.members.iter().all(|m| m.pod.as_ref().unwrap().outdated));
        image(&stub, "db:2");
        assert_eq!(older(&look(&stub).await), [true, true]);
    }

    #[tokio::test]
    async fn the_note_is_on_the_set_and_not_in_its_template() {
        let set = look(&stub()).await.objects.into_iter().find(|o| o.kind == "StatefulSet").unwrap();
        let note = &set.manifest["metadata"]["annotations"][ANNOTATION_TEMPLATE];
        assert!(note.as_str().is_some_and(|text| serde_json::from_str::<Value>(text).unwrap()["older"] == json!([])));
        assert!(!set.manifest["spec"]["template"].to_string().contains(ANNOTATION_TEMPLATE));
    }

    /// The image that the StatefulSet should have. `None`: it stays as it is.
    fn desired_image(s: &Snapshot) -> Option<String> {
        let set = s.objects.iter().find(|o| o.kind == "StatefulSet")?;
        Some(set.manifest["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned())
    }

    fn hash(stub: &Stub) -> String {
        template_hash(&serde_json::from_value(stub.get(GROUP).unwrap()).unwrap())
    }

    /// A group whose template `db:2` was given up for `db:1`, the path under which that is kept, and the template itself.
    fn given_up() -> (Stub, String, Value) {
        let stub = stub();
        let (good, template) = (hash(&stub), stub.get(GROUP).unwrap()["spec"]["template"].clone());
        let kept = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", revision_name("db", &good));
        image(&stub, "db:2");
        let failed = json!({"template": hash(&stub), "at": 1, "why": "db-1 is not Ready"});
        stub.change(GROUP, |group| {
            group["spec"]["update"] = json!({"onFailure": "RollBack"});
            group["status"]["record"]["fallback"] = json!({"good": good, "failed": failed});
        });
        (stub, kept, template)
    }

    fn keep(stub: &Stub, kept: &str, template: &Value, owner: &str) {
        let owner = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": owner, "controller": true}]);
        let metadata = json!({"ownerReferences": owner, "annotations": {ANNOTATION_CAUSE: "the first"}});
        stub.set_object(kept, json!({"metadata": metadata, "data": {"spec": {"template": template}}}));
    }

    async fn observed(stub: &Stub, ctx: &Arc<Context>) -> Observed {
        let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
        observe(ctx, &seen, Ask::Recent, None).await.unwrap()
    }

    // E35: after a template was given up the StatefulSet gets the one before, as it was kept, with its own reason. It is read once.
    #[tokio::test]
    async fn the_set_has_the_template_before_one_that_was_given_up() {
        let (stub, kept, template) = given_up();
        keep(&stub, &kept, &template, "group");
        let ctx = stub.context();
        let back = observed(&stub, &ctx).await;
        let s = &back.snapshot;
        assert_eq!(
            (desired_image(s).as_deref(), s.group.update.former, back.unreadable),
            (Some("db:1"), Former::Kept, None)
        );
        assert_eq!(s.group.update.template, hash(&stub), "the spec is the user's");
        stub.remove(&kept);
        assert_eq!(desired_image(&observed(&stub, &ctx).await.snapshot).as_deref(), Some("db:1"));
        // Another template is a new try.
        image(&stub, "db:3");
        assert_eq!(desired_image(&look(&stub).await).as_deref(), Some("db:3"));
    }

    // E35: what is not kept any more, is another template, or makes no pods with the present commands, is nothing to go back to.
    #[tokio::test]
    async fn a_template_that_is_lost_is_nothing_to_go_back_to() {
        let lost = async |stub: &Stub| {
            let seen = observed(stub, &stub.context()).await;
            assert_eq!((seen.snapshot.group.update.former, seen.unreadable), (Former::Lost, None));
            assert_eq!(desired_image(&seen.snapshot).as_deref(), Some("db:2"), "a group goes on with its template");
        };
        let (stub, kept, template) = given_up();
        lost(&stub).await;
        // Pods could be made from it, and it is not the one that worked.
        let mut other = template.clone();
        other["spec"]["containers"][0]["image"] = "db:9".into();
        let wrong = [(other, "group"), (json!({"spec": {}}), "group"), (template.clone(), "another group")];
        for (template, owner) in wrong {
            keep(&stub, &kept, &template, owner);
            lost(&stub).await;
        }
        keep(&stub, &kept, &template, "group");
        stub.change(GROUP, |group| {
            let containers = group["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
            containers.push(json!({"name": "tools", "image": "tools:1"}));
            group["spec"]["commands"]["sequence"]["container"] = "tools".into();
            let failed = template_hash(&serde_json::from_value(group.clone()).unwrap());
            group["status"]["record"]["fallback"]["failed"]["template"] = failed.into();
        });
        lost(&stub).await;
    }

    // E10, E35: the configuration that a template had is stored nowhere, so a template that differs in nothing else is nothing to go back to.
    #[tokio::test]
    async fn nobody_goes_back_for_a_configuration() {
        let look = async |back_to: &str| {
            let (stub, _, template) = given_up();
            let with_old = hash_of(&serde_json::from_value(template.clone()).unwrap(), Some("old"));
            let kept = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", revision_name("db", &with_old));
            keep(&stub, &kept, &template, "group");
            stub.change(&kept, |kept| kept["metadata"]["annotations"][ANNOTATION_CONFIG] = "old".into());
            image(&stub, back_to);
            let failed = hash(&stub);
            stub.change(GROUP, |group| {
                group["status"]["record"]["fallback"]["good"] = with_old.into();
                group["status"]["record"]["fallback"]["failed"]["template"] = failed.into();
            });
            let seen = observed(&stub, &stub.context()).await.snapshot;
            let set = seen.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
            let config = set.manifest["spec"]["template"]["metadata"]["annotations"][ANNOTATION_CONFIG].as_str();
            (seen.group.update.former, config.map(str::to_owned))
        };
        assert_eq!(look("db:1").await, (Former::Lost, None));
        assert_eq!(
            look("db:2").await,
            (Former::Kept, Some("old".into())),
            "another template comes back with its own mark"
        );
    }

    // E35: as long as it cannot be read nothing of the group is changed, and no pod counts as one that another template waits for. All else goes on.
    #[tokio::test]
    async fn while_it_cannot_be_read_objects_stay_as_they_are() {
        let (stub, kept, template) = given_up();
        keep(&stub, &kept, &template, "group");
        stub.answer(Method::GET, &kept, Answer::Fail(403, "Forbidden"));
        let seen = observed(&stub, &stub.context()).await;
        assert_eq!((seen.snapshot.group.update.former, seen.snapshot.objects), (Former::Unknown, Vec::new()));
        assert!(seen.unreadable.is_some());
    }

    // A StatefulSet that has not the wanted template yet says nothing of its pods: no pod of it is deleted for an update.
    #[tokio::test]
    async fn a_set_with_another_template_is_unseen() {
        let stub = stub();
        let first = look(&stub).await;
        apply(&stub, &first, 1);
        assert!(!look(&stub).await.set.unwrap().unseen);
        image(&stub, "db:2");
        assert!(look(&stub).await.set.unwrap().unseen);
    }

    // Without the right to list them templates have no numbers; that is said, and not tried again at once.
    #[tokio::test]
    async fn numbers_that_cannot_be_read_are_not_asked_for_again_at_once() {
        let stub = stub();
        stub.answer(Method::GET, "/controllerrevisions", Answer::Fail(403, "Forbidden"));
        let ctx = stub.context();
        assert!(observed(&stub, &ctx).await.unreadable.is_some());
        stub.seen();
        let second = observed(&stub, &ctx).await;
        assert!(second.unreadable.is_some() && second.template.is_none());
        assert!(stub.seen().iter().all(|request| !request.path.ends_with("/controllerrevisions")));
    }

    // P20: `spec.policyLabelKeys` is about the group and its members; a group that was stored with the former name goes on with it.
    #[tokio::test]
    async fn policies_see_the_named_labels_of_the_group_and_of_its_members() {
        for field in ["policyLabelKeys", "labels"] {
            let stub = stub();
            stub.change(GROUP, |group| {
                group["spec"][field] = json!(["rack", "tier"]);
                group["metadata"]["annotations"] = json!({"tier": "gold", "other": "x"});
            });
            stub.change(&pod(0), |pod| {
                pod["metadata"]["labels"]["rack"] = "r1".into();
                pod["metadata"]["annotations"] = json!({"policy.tanist.dev/rank": "7", "other": "x"});
            });
            let s = look(&stub).await;
            let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
            assert_eq!(s.group.labels, [pair("tier", "gold")], "{field}");
            assert_eq!(s.members[0].pod.as_ref().unwrap().labels, [pair("rack", "r1"), pair("rank", "7")], "{field}");
        }
    }
}
