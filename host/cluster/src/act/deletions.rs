//! Deletes pods. Those that go together for an update get one second look and are deleted at once: a look at each in turn would find the others on their way to an end.
use super::second_look::look_again;
use super::writes::delete_pod;
use super::{Acting, Error};
use futures::future::join_all;
use std::collections::BTreeMap;
use tanist_core::checked::{Deletion, recheck_deletion, recheck_update};
use tanist_core::contract::MemberName;
use tanist_core::freshness::Ask;
use tanist_core::plan::{Action, DeletionCause};
use tracing::info;

/// What became of pods that were deleted together, by UID, until their actions ask for it.
#[derive(Default)]
pub(super) struct Together(BTreeMap<String, Result<(), Error>>);

impl Together {
    /// Whether that pod's deletion was tried.
    pub(super) fn knows(&self, pod_uid: &str) -> bool {
        self.0.contains_key(pod_uid)
    }

    /// What became of that pod's deletion.
    ///
    /// # Errors
    /// Why the pod was not deleted.
    pub(super) fn take(&mut self, pod_uid: &str) -> Result<(), Error> {
        self.0.remove(pod_uid).unwrap_or(Err(Error::Outdated))
    }
}

fn refused(member: &MemberName, violation: tanist_core::check::Violation) -> Error {
    Error::Recheck(format!("delete the pod of {member}"), violation)
}

impl Acting<'_> {
    /// The second look for one pod.
    pub(super) async fn look_before_deletion(
        &self,
        member: &MemberName,
        pod_uid: &str,
        cause: DeletionCause,
    ) -> Result<Deletion, Error> {
        // Whether a healthy member may go depends on the present role of every member.
        let ask = if cause == DeletionCause::Failure { Ask::Only(member) } else { Ask::Everyone };
        let live = look_again(self.ctx, self.observed, &self.outcome.object, ask).await?;
        recheck_deletion(&self.observed.snapshot, &live, member, pod_uid, cause).map_err(|v| refused(member, v))
    }

    /// The second look for all pods that the plan deletes for an update.
    pub(super) async fn look_before_update(&self) -> Result<Vec<Deletion>, Error> {
        let update = |action| match action {
            &Action::DeletePod { ref member, ref pod_uid, cause: DeletionCause::Update, .. } => {
                Some((member, pod_uid.as_str()))
            }
            _ => None,
        };
        let pods: Vec<_> = self.plan.actions.iter().filter_map(update).collect();
        let live = look_again(self.ctx, self.observed, &self.outcome.object, Ask::Everyone).await?;
        recheck_update(&self.observed.snapshot, &live, &pods).map_err(|(member, v)| refused(&member, v))
    }

    /// Deletes them at once.
    pub(super) async fn delete_together(&self, deletions: Vec<Deletion>, reason: &str) -> Together {
        let deleted = join_all(deletions.into_iter().map(async |deletion| {
            let uid = deletion.uid().to_owned();
            (uid, self.delete_pod(deletion, DeletionCause::Update, reason).await)
        }));
        Together(deleted.await.into_iter().collect())
    }

    pub(super) async fn delete_pod(&self, deletion: Deletion, cause: DeletionCause, reason: &str) -> Result<(), Error> {
        let (member, uid) = (deletion.member().clone(), deletion.uid().to_owned());
        info!(%member, reason, "deleting the pod");
        let namespace = &self.observed.snapshot.group.namespace;
        match delete_pod(self.ctx, namespace, deletion).await {
            // The pod's status may change often, so its version does. One more look decides whether the pod is still to be deleted.
            Err(Error::Overtaken(_)) => {
                let deletion = self.look_before_deletion(&member, &uid, cause).await?;
                delete_pod(self.ctx, namespace, deletion).await
            }
            done => done,
        }
    }
}
