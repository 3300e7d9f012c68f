//! Finds the pods that run the group's `spec.template`: see [`TemplateNote`].
use super::World;
use super::convert::LABEL_REVISION;
use crate::objects::TemplateNote;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

impl World {
    /// The note that the StatefulSet should have.
    pub(super) fn template_note(&self) -> TemplateNote {
        TemplateNote::next(self.live_note().as_ref(), self.template.clone(), self.revisions())
    }

    /// Whether a pod was made from a `spec.template` that was changed since. `live`: the note on the StatefulSet.
    pub(super) fn has_older_template(&self, pod: &Pod, live: Option<&TemplateNote>) -> bool {
        let known = live.zip(pod.labels().get(LABEL_REVISION));
        known.is_some_and(|(note, revision)| note.is_older(&self.template, revision, self.newest_revision()))
    }

    /// The note that the StatefulSet has.
    pub(super) fn live_note(&self) -> Option<TemplateNote> {
        TemplateNote::read(self.set.as_ref()?.annotations())
    }

    /// The revisions of the pods, and the newest revision of the StatefulSet.
    fn revisions(&self) -> impl Iterator<Item = String> {
        let pods = self.pods.iter().filter_map(|p| p.labels().get(LABEL_REVISION));
        let newest = self.set.iter().filter_map(|s| s.status.as_ref()?.update_revision.as_ref());
        pods.chain(newest).cloned()
    }

    /// The revision of the StatefulSet's template as it is now. `None`: its controller has not seen that template yet.
    fn newest_revision(&self) -> Option<&str> {
        let set = self.set.as_ref()?;
        let status = set.status.as_ref()?;
        let seen = status.observed_generation >= set.metadata.generation;
        status.update_revision.as_deref().filter(|_| seen)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use crate::observe::observe;
    use crate::stub::{GROUP, SET, Stub, pod};
    use serde_json::{Value, json};
    use tanist_api::{ANNOTATION_TEMPLATE, ReplicaGroup};
    use tanist_core::freshness::Ask;
    use tanist_core::snapshot::Snapshot;

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
