//! `tanist policy fmt`: scripts in their usual form.
use super::super::output::Form;
use super::tools::tools;
use super::{End, say};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use tanist_author::Error;
use tanist_author::format::format;
use tanist_author::tools::read;

/// The arguments of `tanist policy fmt`.
#[derive(Debug, Clone, clap::Args)]
pub struct Fmt {
    /// The scripts (.star).
    #[arg(required = true, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Write nothing, and fail when a script is not in the usual form.
    #[arg(long)]
    check: bool,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// A script that was looked at.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Looked {
    file: String,
    /// Whether it is in another form than the usual one, or was.
    differs: bool,
}

/// Formats scripts. Nothing is written before every one of them was read.
pub fn fmt(asked: &Fmt) -> anyhow::Result<End> {
    let tools = tools()?;
    let look = |path: &PathBuf| {
        let bytes = read(path)?;
        let text = format(&tools, path, &bytes)?;
        Ok((path.clone(), (bytes != text.as_bytes()).then_some(text)))
    };
    let all = asked.file.iter().map(look).collect::<Result<Vec<_>, Error>>()?;
    for (path, text) in all.iter().filter(|_| !asked.check) {
        if let Some(text) = text {
            replace(path, text).map_err(|source| Error::Write { path: path.clone(), source })?;
        }
    }
    let looked = |(path, text): &(PathBuf, Option<String>)| {
        let file = path.display().to_string();
        Looked { file, differs: text.is_some() }
    };
    let looked: Vec<_> = all.iter().map(looked).collect();
    say(&looked, asked.output, || text(&looked, asked.check))?;
    Ok(End::of(!asked.check || looked.iter().all(|each| !each.differs)))
}

/// Writes the text beside the file and puts it in its place, so that a full disk or a signal leaves the author the old text. A link goes on pointing at its
/// file, which keeps its mode.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = path.canonicalize()?;
    // A folder that one may not write to, or a file that is mounted for itself: then it is written as it stands.
    replace_whole(&path, text).or_else(|_| std::fs::write(&path, text))
}

fn replace_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mode = path.metadata()?.permissions();
    let mut new = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(mode)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    Ok(())
}

/// A line for each script that differs.
fn text(looked: &[Looked], check: bool) -> String {
    let line = |each: &Looked| match check {
        true => format!("{0} is not in the usual form; `tanist policy fmt {0}` writes it\n", each.file),
        false => format!("{} is now in the usual form\n", each.file),
    };
    looked.iter().filter(|each| each.differs).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::replace;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_script_is_replaced_as_a_whole_and_keeps_its_mode_and_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.star"), folder.path().join("b.star"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        // Who has the old file open still reads all of it: it was not written in place.
        let before = file.metadata().unwrap().ino();
        replace(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_ne!(file.metadata().unwrap().ino(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
