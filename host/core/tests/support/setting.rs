//! The group that the world begins with, and the text of a decision in transcripts.
use tanist_core::plan::{Considered, DecidedBy, Decision, Standing};
use tanist_core::record::GroupSize;
use tanist_core::snapshot::{Command, Commands, Failover, Group, MemberCommands, Update};

pub fn command(name: &str) -> Command {
    Command { exec: vec![name.into()], container: "db".into(), timeout: 60 }
}

/// The commands of an application whose members agree. `learners`: who is added has no vote at first.
pub fn members(learners: bool) -> MemberCommands {
    let (list, add, remove) = (command("memberList"), command("memberAdd"), command("memberRemove"));
    let (promote, recover) = (learners.then(|| command("memberPromote")), None);
    MemberCommands { list, add, remove, promote, recover }
}

pub fn group(replicas: u32, primaries: u32) -> Group {
    Group {
        name: "db".into(),
        namespace: "ns".into(),
        uid: "group".into(),
        generation: 1,
        replicas,
        requested: GroupSize { replicas, primaries },
        primaries,
        commands: Commands {
            status: command("status"),
            sequence: command("sequence"),
            stop: command("stop"),
            primary: command("primary"),
            seed: None,
            secondary: None,
            promote: None,
            follow: None,
            membership: None,
            check: None,
            hooks: Default::default(),
        },
        runner: true,
        start_deadline: 3600,
        active_passive: false,
        unknown_grace: 900,
        preferred_primary: None,
        domain: "cluster.local".into(),
        failover: Failover::default(),
        paused: false,
        retry: None,
        requested_override: None,
        resize_deadline: 600,
        removal_rest: 0,
        update: Update::default(),
        deletes_volumes: false,
        makes_pods: false,
        unwanted: Default::default(),
        zones: Vec::new(),
        cluster_state: None,
        override_error: None,
        requested_recovery: None,
        recovery_error: None,
        labels: Vec::new(),
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
