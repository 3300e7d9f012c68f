//! Stories: text scripts with golden transcripts. `TANIST_BLESS=1` writes the present output into them.
use super::support::script;
use std::path::Path;

#[test]
fn scripts_produce_their_transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "txt"));
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let played = script::play(&name, &text);
        if played == text {
            continue;
        }
        if std::env::var_os("TANIST_BLESS").is_some() {
            std::fs::write(&file, played).unwrap();
        } else {
            let differs = played.lines().zip(text.lines()).enumerate().find(|(_, (a, b))| a != b);
            let (line, (now, then)) = differs.unwrap_or((played.lines().count(), ("(end)", "(end)")));
            wrong.push(format!("{name}:{}\n  was: {then}\n  is:  {now}", line + 1));
        }
    }
    assert!(wrong.is_empty(), "transcripts differ; TANIST_BLESS=1 refreshes them\n{}", wrong.join("\n"));
}
