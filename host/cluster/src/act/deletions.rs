//! Deletes pods. Those that go together for an update get one second look and are deleted at once: a look at each in turn would find the others on their way to an end.
use super::second_look::look_again;
use super::writes::delete_pod;
use super::{Acting, Error, LOOKED, record};
use futures::future::join_all;
use tanist_core::checked::{Deletion, recheck_deletion, recheck_update};
use tanist_core::contract::MemberName;
use tanist_core::freshness::Ask;
use tanist_core::order::{self, Need};
use tanist_core::plan::{Action, DeletionCause};
use tracing::info;

fn refused(member: &MemberName, violation: tanist_core::check::Violation) -> Error {
    Error::Recheck(format!("delete the pod of {member}"), violation)
}

/// Whose pod the action deletes for an update, if it does.
fn update(action: &Action) -> Option<(&MemberName, &str)> {
    match action {
        Action::DeletePod { member, pod_uid, cause: DeletionCause::Update, .. } => Some((member, pod_uid)),
        _ => None,
    }
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

    /// Deletes all pods that the plan deletes for an update, at the turn of the first of them. The others are done with it.
    pub(super) async fn update_pods(&mut self, first: &Action) {
        if self.updated || self.missing.stops(first) {
            return;
        }
        self.updated = true;
        let deletions = match self.prepare_update().await {
            Ok(deletions) => deletions,
            Err(error) => return self.note(first, Err((error, Some(Need::Record)))),
        };
        let plan = self.plan;
        let actions: Vec<_> = plan.actions.iter().filter(|action| update(action).is_some()).collect();
        let ends = join_all(actions.iter().zip(deletions).map(async |(action, deletion)| match action {
            Action::DeletePod { cause, reason, .. } => self.delete_pod(deletion, *cause, reason).await,
            _ => Ok(()),
        }));
        for (action, end) in actions.iter().zip(ends.await) {
            self.note(action, end.map_err(|error| (error, order::spoils(action))));
        }
    }

    /// The second look for all of them, and the record, which names them.
    async fn prepare_update(&mut self) -> Result<Vec<Deletion>, Error> {
        if self.ctx.is_closing() {
            return Err(Error::Closing);
        }
        let deletions = self.look_before_update().await?;
        let looked = self.ctx.clock.moment();
        record(self.ctx, self.plan, self.report, &mut self.outcome).await?;
        match self.ctx.clock.moment().since(looked) > LOOKED {
            true => self.look_before_update().await,
            false => Ok(deletions),
        }
    }

    async fn look_before_update(&self) -> Result<Vec<Deletion>, Error> {
        let pods: Vec<_> = self.plan.actions.iter().filter_map(update).collect();
        let live = look_again(self.ctx, self.observed, &self.outcome.object, Ask::Everyone).await?;
        recheck_update(&self.observed.snapshot, &live, &pods).map_err(|(member, v)| refused(&member, v))
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
