//! `tanist policy snapshot`: a live group as cases.
use super::super::Session;
use super::super::output::Form;
use super::live::{self, points};
use super::{End, say};
use crate::policies::source_text;
use tanist_core::policy::Point;

/// The arguments of `tanist policy snapshot`.
#[derive(Debug, Clone, clap::Args)]
pub struct Snapshot {
    /// The name of the group, in the namespace of the command.
    group: String,
    /// The question. Default: those that arise now; if none does, each that would if something simple happened, which is named.
    #[arg(long, value_name = "POINT", value_parser = points())]
    question: Option<Point>,
    /// The output format. Default: the file of cases, for `test` and `run`.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// Records a group.
pub async fn snapshot(session: &Session, asked: &Snapshot) -> anyhow::Result<End> {
    let mut live = live::read(session, &asked.group).await?;
    // A file of cases is about one policy.
    let mut with = live.group.spec.policies.iter().filter(|policy| !policy.parameters.is_empty());
    let first = with.next();
    let others: Vec<_> = with.map(source_text).collect();
    if let (Some(first), false) = (first, others.is_empty()) {
        let (first, others) = (source_text(first), others.join(" and "));
        live.unsaid.push(format!("the parameters are those of {first}; those of {others} are left out"));
    }
    let recording = live::recorded(&live, asked.question, first)?;
    for case in &recording.cases {
        live.unsaid.extend(case.differs.iter().map(|what| format!("{}: {what}", case.name)));
    }
    live::warn(&live.unsaid);
    say(&recording, asked.output, || recording.text.clone())?;
    Ok(End::Well)
}
