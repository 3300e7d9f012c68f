//! Files of stories: `= NAME`, then a comment that says what it shows, then commands with what they say.
use super::super::support::script;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Where the files are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// Whether stories are written instead of compared.
pub fn is_blessed() -> bool {
    std::env::var_os("TANIST_BLESS").is_some()
}

/// The files as modules are called: `from_zero` for `from-zero.txt`.
pub fn files() -> Vec<String> {
    let paths = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let text = paths.filter(|path| path.extension().is_some_and(|e| e == "txt"));
    let mut files: Vec<_> = text.map(|path| path.file_stem().unwrap().to_string_lossy().replace('-', "_")).collect();
    files.sort();
    files
}

fn name_of(file: &str) -> String {
    format!("{}.txt", file.replace('_', "-"))
}

/// The names of the stories of a file.
pub fn names(file: &str) -> Vec<String> {
    let mut open = File::open(folder().join(name_of(file))).unwrap();
    // A story of it may be written at this time.
    open.lock_shared().unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    sections(&name_of(file), &text).iter().map(|section| section.name.to_owned()).collect()
}

/// A story in its file.
struct Section<'a> {
    name: &'a str,
    /// Of its name, from 0.
    line: usize,
    text: &'a str,
}

/// Nothing is outside of stories.
fn sections<'a>(file: &str, text: &'a str) -> Vec<Section<'a>> {
    let mut starts = Vec::new();
    let mut at = 0;
    for (line, whole) in text.split_inclusive('\n').enumerate() {
        if let Some(name) = whole.strip_prefix("= ") {
            starts.push((at, line, name.trim_end()));
        }
        at += whole.len();
    }
    assert_eq!(starts.first().map(|(at, ..)| *at), Some(0), "{file} begins with `= NAME`");
    let ends = starts.iter().skip(1).map(|(at, ..)| *at).chain([text.len()]);
    let all =
        starts.iter().zip(ends).map(|((at, line, name), end)| Section { name, line: *line, text: &text[*at..end] });
    let all: Vec<_> = all.collect();
    for Section { name, line, text } in &all {
        // As functions are called, of two words at least: so tables of mutations find them.
        let words: Vec<_> = name.split('_').collect();
        let plain =
            |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        assert!(words.len() > 1 && words.iter().all(plain), "{file}:{}: {name:?} is no name", line + 1);
        let comment = text.lines().nth(1).is_some_and(|line| line.starts_with("# "));
        assert!(comment, "{file}:{}: a comment says what {name} shows", line + 1);
    }
    all
}

/// Plays that story of that file. It has to say what the file says that it does.
pub fn tell(file: &str, name: &str) {
    let file = name_of(file);
    let mut open = OpenOptions::new().read(true).write(is_blessed()).open(folder().join(&file)).unwrap();
    if is_blessed() {
        // Other stories of the file are written at the same time.
        open.lock().unwrap();
    }
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    let all = sections(&file, &text);
    let section =
        all.iter().find(|section| section.name == name).unwrap_or_else(|| panic!("{file} has no story {name}"));
    let played = script::play(&file, section.text);
    if played == section.text {
        return;
    }
    if is_blessed() {
        let before = section.text.as_ptr().addr() - text.as_ptr().addr();
        let whole = format!("{}{played}{}", &text[..before], &text[before + section.text.len()..]);
        return replace(open, &whole);
    }
    let (now, then): (Vec<_>, Vec<_>) = (played.lines().collect(), section.text.lines().collect());
    let line = (0..).find(|line| now.get(*line) != then.get(*line)).unwrap_or(0);
    let said = |lines: &[&str]| lines.get(line).map_or("(the end)".to_owned(), |line| (*line).to_owned());
    let (now, then) = (said(&now), said(&then));
    let at = section.line + line + 1;
    panic!("the transcript differs; TANIST_BLESS=1 refreshes it\n{file}:{at}\n  was: {then}\n  is:  {now}");
}

fn replace(mut file: File, text: &str) {
    file.set_len(0).unwrap();
    file.rewind().unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
