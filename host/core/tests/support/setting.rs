//! The group that the world begins with, and the text of a decision in transcripts.
use tanist_core::examples;
use tanist_core::plan::{Considered, DecidedBy, Decision, Standing};
use tanist_core::record::GroupSize;
use tanist_core::snapshot::{Command, Group, MemberCommands};

pub fn command(name: &str) -> Command {
    Command { exec: vec![name.into()], container: "db".into(), timeout: 60 }
}

/// The commands of an application whose members agree. `learners`: who is added has no vote at first.
pub fn members(learners: bool) -> MemberCommands {
    let (list, add, remove) = (command("memberList"), command("memberAdd"), command("memberRemove"));
    let (promote, recover) = (learners.then(|| command("memberPromote")), None);
    MemberCommands { list, add, remove, promote, recover, wipe: None }
}

pub fn group(replicas: u32, primaries: u32) -> Group {
    Group {
        namespace: "ns".into(),
        replicas,
        requested: GroupSize { replicas, primaries },
        primaries,
        commands: examples::commands(command),
        ..examples::group(replicas)
    }
}

/// A decision on one line: each member with its result.
pub fn on_one_line(decision: &Decision) -> String {
    let describe = |c: &Considered| match c.result {
        Standing::Chosen => format!("{} chosen", c.member),
        Standing::Fallback => format!("{} next", c.member),
        Standing::PassedOver => format!("{} passed over: {}", c.member, c.reason),
        Standing::Barred => format!("{} barred: {}", c.member, c.reason),
    };
    let all: Vec<_> = decision.candidates.iter().map(describe).collect();
    let who = match &decision.by {
        DecidedBy::Policy(policy) => policy.name.as_str(),
        DecidedBy::Administrator => "an administrator",
        DecidedBy::NoCandidate => "nobody",
    };
    format!("{who} answers {}: {}", decision.point, all.join(" | "))
}
