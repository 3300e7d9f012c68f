//! What happened in a story, for people and for comparison: each write and each execution that the operator asked for, beside what really happened.
use kube::ResourceExt;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_cluster::cluster::Write;
use tanist_cluster::observe::convert::CLAIM_START;

/// One line for each thing that happened. It is kept only where somebody asks for it: lives are long.
#[derive(Debug, Default)]
pub struct Transcript(Vec<Line>);

#[derive(Debug)]
struct Line {
    at: u64,
    what: String,
    times: u32,
}

impl Transcript {
    /// Something happened. What happens again at once is counted.
    ///
    /// Seconds are rounded to the nearest one: what users do happens at whole seconds and what follows from it some milliseconds later, so that a
    /// round that takes a little longer changes nothing here.
    pub fn add(&mut self, at: Duration, what: String) {
        let at = at.saturating_add(Duration::from_millis(500)).as_secs();
        match self.0.last_mut() {
            Some(last) if last.at == at && last.what == what => last.times = last.times.saturating_add(1),
            _ => self.0.push(Line { at, what, times: 1 }),
        }
    }

    /// The transcript, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |line: &Line| match line.times {
            1 => format!("{:>5} s  {}", line.at, line.what),
            times => format!("{:>5} s  {} ({times} times)", line.at, line.what),
        };
        self.0.iter().map(line).collect()
    }
}

/// A write as users would say it.
#[must_use]
pub fn told(write: &Write) -> String {
    match write {
        Write::Status(group) => format!("writes the status of {}: {}", group.name_any(), standing(group)),
        Write::Apply { kind, name, .. } => format!("applies {} {name}", kind.word()),
        Write::Create { dry_run: true, .. } => "tries the pod template".to_owned(),
        Write::Create { kind, manifest, .. } => {
            let name = manifest.pointer("/metadata/name").and_then(serde_json::Value::as_str).unwrap_or_default();
            format!("creates {} {name}", kind.word())
        }
        Write::Label { pod, role: Some(role) } => format!("labels {} {role}", pod.name),
        Write::Label { pod, role: None } => format!("takes the label from {}", pod.name),
        Write::Gate { pod, ready: true, .. } => format!("makes {} ready", pod.name),
        Write::Gate { pod, ready: false, .. } => format!("makes {} not ready", pod.name),
        Write::Mark { claim, notes } if notes.contains_key(CLAIM_START) => format!("notes the start on {}", claim.name),
        Write::Mark { claim, .. } => format!("writes the memory on {}", claim.name),
        Write::Grow { claim, size } => format!("lets {} ask for {size}", claim.name),
        Write::Adopt { pod, .. } => format!("changes the owner of {}", pod.name),
        Write::DropSet { set } => format!("deletes the set {}", set.name),
        Write::Nudge { set, .. } => format!("touches the set {}", set.name),
        Write::Scale { set, to, .. } => format!("shrinks the set {set} to {}", to.replicas()),
        Write::Forget { revision } => format!("deletes the former template {}", revision.name),
        Write::Discard { discard, .. } => format!("deletes the claim {}", discard.claim()),
        Write::Delete { deletion, .. } => format!("deletes the pod {}", deletion.member()),
    }
}

/// Whether it is ready, and what is true of it besides.
fn standing(group: &ReplicaGroup) -> String {
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    let counts = conditions.filter(|c| c.type_ == "Ready" || c.type_ != "PolicyActive" && c.status == "True");
    counts.map(|c| format!("{} {} {}", c.type_, c.status, c.reason)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_and_repetitions_counted() {
        let mut transcript = Transcript::default();
        for (millis, what) in [(19_510, "a"), (20_020, "a"), (20_490, "b"), (20_510, "b")] {
            transcript.add(Duration::from_millis(millis), what.to_owned());
        }
        assert_eq!(transcript.lines(), ["   20 s  a (2 times)", "   20 s  b", "   21 s  b"]);
    }
}
