//! State: the ConfigMap of `spec.clusterState` names the members as they are after this round, before any of them is started; each command gets the same values as environment.
//! So is the version of the data. It is the last step, because only then it is known who is started.
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::Snapshot;
use crate::state::{self, Data, Stored};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for action in &mut plan.actions {
        let Action::Run { env, .. } = action else { continue };
        *env = state::of_version(&plan.record).into_iter().collect();
    }
    let Some(template) = &s.group.cluster_state else { return };
    let data = match state::render(s, template, &plan.record, None) {
        Ok(data) => data,
        Err(why) => return plan.wait(Reason::ClusterStateBlocked, None, why),
    };
    give(plan, &data);
    if s.cluster_state == Stored::Writing {
        // The end of the write starts the next round.
        return;
    }
    if let Some(why) = state::unwritable(s, template) {
        return plan.wait(Reason::ClusterStateBlocked, None, why);
    }
    if s.cluster_state.has(&data) {
        return;
    }
    let version = if let Stored::Own { version, .. } = &s.cluster_state { Some(version.clone()) } else { None };
    let starts = |action: &Action| matches!(action, Action::Run { needs_state: true, .. });
    let first = plan.actions.iter().position(starts);
    let write = Action::WriteState { name: template.name.clone(), data, version, awaited: first.is_some() };
    plan.actions.insert(first.unwrap_or(plan.actions.len()), write);
}

/// Gives the values to all commands of the plan: as environment, and in place of arguments such as `$(STATE:KEY)`.
fn give(plan: &mut Plan, data: &Data) {
    for action in &mut plan.actions {
        let Action::Run { argv, env, .. } = action else { continue };
        env.extend(state::variables(data));
        for argument in argv {
            if let Some(value) = state::key_in(argument).and_then(|key| data.get(key)) {
                argument.clone_from(value);
            }
        }
    }
}
