//! Fills the places of a document with the figures that JSON files hold. Such a place is the text between two lines,
//! `<!-- figures: NAME -->` and `<!-- end of figures -->`; NAME is the part, and its file is NAME.json.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use crate::{
    against::Against,
    changes::Changes,
    decisions::Decisions,
    idle::Idle,
    record::{Record, Shown},
    recovery::Recoveries,
    scripts::Scripts,
    takeovers::Takeovers,
};

/// Which document, and from what.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder with the JSON files.
    #[arg(long)]
    figures: PathBuf,
    /// The document, which is written anew.
    #[arg(long)]
    document: PathBuf,
    /// Write nothing; fail when the document is not what the JSON files give.
    #[arg(long)]
    check: bool,
}

const END: &str = "<!-- end of figures -->";

/// # Errors
/// When the document has an unknown place, or with `--check` other figures.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.document.display();
    let before = fs::read_to_string(&args.document).with_context(|| format!("failed to read {path}"))?;
    let after = rendered(&before, &args.figures)?;
    if args.check {
        ensure!(before == after, "{path} has other figures than {}: tanist-bench render", args.figures.display());
        return Ok(());
    }
    fs::write(&args.document, after).with_context(|| format!("failed to write {path}"))
}

/// The document with the figures of that folder.
fn rendered(document: &str, folder: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        text += line;
        text += "\n";
        let Some(name) = line.strip_prefix("<!-- figures: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        ensure!(lines.by_ref().any(|line| line == END), "the place of {name} has no end: {END}");
        text += &format!("\n{}\n{END}\n", part(name, folder)?);
    }
    Ok(text)
}

/// The text of a part.
fn part(name: &str, folder: &Path) -> anyhow::Result<String> {
    match name {
        Decisions::NAME => shown::<Decisions>(folder),
        Scripts::NAME => shown::<Scripts>(folder),
        Recoveries::NAME => shown::<Recoveries>(folder),
        Takeovers::NAME => shown::<Takeovers>(folder),
        Idle::NAME => shown::<Idle>(folder),
        Changes::NAME => shown::<Changes>(folder),
        Against::NAME => shown::<Against>(folder),
        _ => bail!("there are no figures called {name}"),
    }
}

fn shown<T: Shown>(folder: &Path) -> anyhow::Result<String> {
    let record = Record::<T>::read(&folder.join(format!("{}.json", T::NAME)))?;
    Ok(record.map_or_else(|| format!("No figures yet: `dev/bench/run --{}`.\n", T::NAME), |record| record.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    // P35: what docs/benchmarks.md says is what was measured.
    #[test]
    fn the_document_has_the_figures_of_its_json() {
        let args = Args { figures: docs().join("benchmarks"), document: docs().join("benchmarks.md"), check: true };
        run(&args).unwrap();
    }

    #[test]
    fn every_part_has_a_place() {
        let text = fs::read_to_string(docs().join("benchmarks.md")).unwrap();
        for name in [
            Decisions::NAME,
            Scripts::NAME,
            Recoveries::NAME,
            Takeovers::NAME,
            Idle::NAME,
            Changes::NAME,
            Against::NAME,
        ] {
            assert!(text.contains(&format!("<!-- figures: {name} -->\n")), "{name} has no place");
        }
    }

    #[test]
    fn figures_replace_what_was_there() {
        let nowhere = Path::new("/nowhere");
        let document = "# Title\n<!-- figures: idle -->\nold figures\n<!-- end of figures -->\nafter\n";
        let once = rendered(document, nowhere).unwrap();
        assert_eq!(
            once,
            "# Title\n<!-- figures: idle -->\n\nNo figures yet: `dev/bench/run --idle`.\n\n<!-- end of figures -->\nafter\n"
        );
        assert_eq!(rendered(&once, nowhere).unwrap(), once);
    }

    #[test]
    fn an_unknown_place_and_one_without_end_are_errors() {
        let nowhere = Path::new("/nowhere");
        assert!(rendered("<!-- figures: speed -->\n<!-- end of figures -->\n", nowhere).is_err());
        assert!(rendered("<!-- figures: idle -->\ntext\n", nowhere).is_err());
    }
}
