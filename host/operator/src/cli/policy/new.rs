//! `tanist policy new`: a folder to begin with.
use super::super::output::print;
use super::End;
use clap::ValueEnum;
use std::path::PathBuf;
use tanist_author::Error;
use tanist_author::project::{Language, Sdk, create};

/// The arguments of `tanist policy new`.
#[derive(Debug, Clone, clap::Args)]
pub struct New {
    /// The new folder. Its name is the policy's.
    dir: PathBuf,
    /// The language of the policy.
    #[arg(long, value_enum, default_value_t = Lang::Starlark)]
    lang: Lang,
    /// For Rust: the SDK, a Git URL or the folder policies/sdk of a checkout of Tanist. Without it: that of this release, if it has a public repository.
    #[arg(long, value_name = "PATH|URL")]
    sdk: Option<String>,
}

/// The languages of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lang {
    /// A script: nothing is built.
    Starlark,
    /// A component, built by cargo.
    Rust,
}

/// The repository that this program was built from. Empty while the project has no public one.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Begins a policy.
pub fn new(asked: &New) -> anyhow::Result<End> {
    let language = match (asked.lang, &asked.sdk) {
        (Lang::Starlark, None) => Language::Starlark,
        (Lang::Starlark, Some(_)) => return Err(Error::Usage("--sdk is for --lang rust".to_owned()).into()),
        (Lang::Rust, Some(sdk)) => Language::Rust(Sdk::find(sdk)?),
        (Lang::Rust, None) => {
            let message = "a policy in Rust needs the SDK: give --sdk with a Git URL, or with the folder policies/sdk of a checkout of Tanist";
            let released = Sdk::of_release(REPOSITORY, env!("CARGO_PKG_VERSION"));
            Language::Rust(released.ok_or_else(|| Error::Usage(message.to_owned()))?)
        }
    };
    let files = create(&asked.dir, &language)?;
    let dir = asked.dir.display();
    let build = match language {
        Language::Starlark => String::new(),
        Language::Rust(_) => format!("  (cd {dir} && cargo run)    # builds policy.wasm\n"),
    };
    let files: String = files.iter().map(|file| format!("  {dir}/{file}\n")).collect();
    print(&format!("{files}next:\n{build}  {} policy test {dir}\n", super::super::me()))?;
    Ok(End::Well)
}
