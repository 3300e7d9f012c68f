//! `tanist policy fmt`: the place of a formatter of scripts, of which there is none to use yet.
use super::End;
use std::path::PathBuf;
use tanist_author::Error;

/// The arguments of `tanist policy fmt`.
#[derive(Debug, Clone, clap::Args)]
pub struct Fmt {
    /// The script.
    file: PathBuf,
}

/// Refuses: no formatter of Starlark is published as a crate, and one of our own would be a language tool to maintain.
pub fn fmt(asked: &Fmt) -> anyhow::Result<End> {
    let file = asked.file.display();
    let message = format!(
        "scripts are not formatted by this version, because there is no maintained formatter of Starlark to build on; \
         use `buildifier --type=default {file}` or `black {file}`, the language's syntax is Python's"
    );
    Err(Error::Usage(message).into())
}
