//! What is done with failed members: `stop`; if that failed, a new pod.

use tanist_policy::{Care, Member, Remedy, Role, Snapshot, Treatment};

pub fn treat(snapshot: &Snapshot) -> Care {
    let mut failed: Vec<_> = snapshot.eligible().filter(|member| member.role == Role::Failed).collect();
    failed.sort_unstable_by(|left, right| left.ordinal.cmp(&right.ordinal).then_with(|| left.name.cmp(&right.name)));
    Care::Treat(failed.into_iter().map(remedy).collect())
}

fn remedy(member: &Member) -> Treatment {
    match &member.last_failure {
        Some(failure) if failure.command == "stop" => {
            let why = format!("stop failed ({}): the pod is replaced, volumes stay", failure.outcome.describe());
            Treatment::new(member, Remedy::Recreate, why)
        }
        Some(failure) => {
            let why =
                format!("{} failed ({}): the member is stopped first", failure.command, failure.outcome.describe());
            Treatment::new(member, Remedy::Stop, why)
        }
        None => {
            let why = member.role_detail.as_deref().unwrap_or("its status says failed");
            Treatment::new(member, Remedy::Stop, format!("the member failed and is stopped first: {why}"))
        }
    }
}
