//! The durable store of tokens: what was started, how it ended, what must never start.
//!
//! One file per token, replaced atomically and synced with its directory:
//! `DIR/tokens/T` = a line `tanist-run/1 started|result|void token uid incarnation argc`, and for a result the frame.
//! Never an argv: it may hold secrets. Files and directories are private to PID 1's user.
//!
//! **Pruning.** The results of the newest 256 tokens are stored. An older token is first written, as eight bytes of hash and kind, to the
//! append-only file `DIR/retired.hashes`, which is synced; then its file is removed. Its result is lost, but not that it was used. So a token
//! is refused as long as the pod exists, voids included, however late an exec of it comes. If the 63-bit hash of a new token equals that of a
//! used one, the new token is refused: that costs one command, never a second start.
//!
//! **The limit.** That file ends at [`RETIRED_KEPT`] tokens. From then on no unknown token starts, because none could be retired to make room
//! for it, and a token that is not stored could start twice. The pod has to be replaced.
//!
//! Earlier runners wrote names and kinds, one on each line, to `DIR/retired`. These tokens are refused too.
use crate::limits::{RETIRED_KEPT, TOKENS_KEPT};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tanist_protocol::frame::Frame;

/// What is stored of a token.
#[derive(Debug, PartialEq, Eq)]
pub enum Record {
    /// It was started by this incarnation of PID 1, and no end is known.
    Started(String),
    /// It ended with this result.
    Result(Frame),
    /// It must never start.
    Void,
    /// It was used, but its result is lost: pruned, or the file is damaged.
    Used,
}

/// The store below a state directory.
#[derive(Debug)]
pub struct Tokens {
    dir: PathBuf,
    scratch: PathBuf,
    /// The file of retired tokens, eight bytes each: [`retired_as`].
    hashes: PathBuf,
    /// The largest number of retired tokens.
    most: u64,
    /// The file of earlier runners; it is only read.
    lines: PathBuf,
}

/// Bytes of a retired token.
const HASH: usize = 8;

/// The writer of a record, which is part of the record.
#[derive(Debug)]
pub struct Writer {
    /// The UID of the pod.
    pub uid: String,
    /// A random ID of this run of PID 1.
    pub incarnation: String,
}

impl Tokens {
    /// The store below a state directory, for reading only.
    pub fn at(state: &Path) -> Tokens {
        Tokens {
            dir: state.join("tokens"),
            scratch: state.join("scratch"),
            hashes: state.join("retired.hashes"),
            most: RETIRED_KEPT,
            lines: state.join("retired"),
        }
    }

    /// The store for writing: creates what is missing.
    pub fn open(state: &Path) -> io::Result<Tokens> {
        let tokens = Tokens::at(state);
        for dir in [&tokens.dir, &tokens.scratch] {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        sync_dir(state)?;
        // Syncs the directory's own name too, if its parent may be read.
        let _ = state.parent().map(sync_dir);
        Ok(tokens)
    }

    /// What is stored of a token.
    ///
    /// # Errors
    /// The store cannot be read. The caller must not start the token then.
    pub fn look_up(&self, token: &str) -> io::Result<Option<Record>> {
        match fs::read(self.dir.join(token)) {
            Ok(bytes) => Ok(Some(read_record(&bytes).unwrap_or(Record::Used))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.look_up_retired(token),
            Err(error) => Err(error),
        }
    }

    /// Stores that argv is about to start. It is on disk when this returns.
    pub fn start(&self, token: &str, writer: &Writer, argc: usize) -> io::Result<()> {
        self.write(token, line("started", token, writer, argc))?;
        // An error of pruning only costs space.
        let _ = self.prune(token);
        Ok(())
    }

    /// Stores how it ended.
    pub fn finish(&self, token: &str, writer: &Writer, argc: usize, frame: &Frame) -> io::Result<()> {
        let mut bytes = line("result", token, writer, argc);
        bytes.extend_from_slice(&frame.to_bytes());
        self.write(token, bytes)
    }

    /// Stores that it must never start.
    pub fn void(&self, token: &str, writer: &Writer) -> io::Result<()> {
        self.write(token, line("void", token, writer, 0))?;
        let _ = self.prune(token);
        Ok(())
    }

    /// Writes a record completely or not at all: a synced file is renamed, then the directory is synced.
    fn write(&self, token: &str, bytes: Vec<u8>) -> io::Result<()> {
        let scratch = self.scratch.join(token);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&scratch)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&scratch, self.dir.join(token))?;
        sync_dir(&self.dir)
    }

    /// Whether the store is full: then no unknown token may start.
    ///
    /// # Errors
    /// The store cannot be read. The caller must not take that as "no".
    pub fn is_full(&self) -> io::Result<bool> {
        match fs::metadata(&self.hashes) {
            Ok(found) => Ok(found.len() / HASH as u64 >= self.most),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn look_up_retired(&self, token: &str) -> io::Result<Option<Record>> {
        let (void, used) = (retired_as(token, true), retired_as(token, false));
        if let Some(file) = open_if_there(&self.hashes)? {
            let mut file = BufReader::with_capacity(64 * 1024, file);
            let mut found = [0; HASH];
            while read_whole(&mut file, &mut found)? {
                if found == void || found == used {
                    return Ok(Some(if found == void { Record::Void } else { Record::Used }));
                }
            }
        }
        let Some(file) = open_if_there(&self.lines)? else { return Ok(None) };
        for line in BufReader::new(file).lines() {
            if let Some((name, kind)) = line?.split_once(' ')
                && name == token
            {
                return Ok(Some(if kind == "void" { Record::Void } else { Record::Used }));
            }
        }
        Ok(None)
    }

    fn prune(&self, current: &str) -> io::Result<()> {
        let mut known = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            known.push((entry.metadata()?.modified()?, entry.file_name()));
        }
        let surplus = known.len().saturating_sub(TOKENS_KEPT);
        if surplus == 0 {
            return Ok(());
        }
        known.sort();
        let mut hashes = Vec::new();
        let mut gone = Vec::new();
        for (_, name) in known.into_iter().take(surplus) {
            let Some(name) = name.to_str().filter(|name| *name != current) else { continue };
            let mut head = Vec::new();
            File::open(self.dir.join(name))?.take(64).read_to_end(&mut head)?;
            let void = head.starts_with(b"tanist-run/1 void ");
            hashes.extend_from_slice(&retired_as(name, void));
            gone.push(self.dir.join(name));
        }
        let mut retired = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.hashes)?;
        // A crash in the middle of an append may have left a part of a hash; that token was not removed.
        let length = retired.metadata()?.len();
        retired.set_len(length - length % HASH as u64)?;
        retired.write_all(&hashes)?;
        retired.sync_all()?;
        if let Some(state) = self.dir.parent() {
            sync_dir(state)?;
        }
        gone.iter().try_for_each(fs::remove_file)
    }
}

/// The stored form of a retired token: 63 bits of its hash (FNV-1a, mixed so that every byte affects every bit), and in the last bit whether it was
/// void. This form must never change, because state directories outlive runners.
fn retired_as(token: &str, void: bool) -> [u8; HASH] {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in token.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^= hash >> 33;
    (hash & !1 | u64::from(void)).to_be_bytes()
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fills the buffer. Returns `false` at the end of the file; an incomplete record does not count.
fn read_whole(from: &mut impl Read, into: &mut [u8; HASH]) -> io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn line(kind: &str, token: &str, writer: &Writer, argc: usize) -> Vec<u8> {
    format!("tanist-run/1 {kind} {token} {} {} {argc}\n", writer.uid, writer.incarnation).into_bytes()
}

fn read_record(bytes: &[u8]) -> Option<Record> {
    let newline = bytes.iter().position(|b| *b == b'\n')?;
    let mut words = std::str::from_utf8(bytes.get(..newline)?).ok()?.split(' ');
    if words.next()? != "tanist-run/1" {
        return None;
    }
    let kind = words.next()?;
    let (_token, _uid) = (words.next()?, words.next()?);
    let incarnation = words.next()?;
    match kind {
        "started" => Some(Record::Started(incarnation.to_owned())),
        "result" => Frame::parse(bytes.get(newline + 1..)?).map(Record::Result),
        "void" => Some(Record::Void),
        _ => None,
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_protocol::outcome::Outcome;

    fn store(name: &str) -> (Tokens, Writer, PathBuf) {
        let dir = std::env::temp_dir().join(format!("tanist-run-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        (Tokens::open(&dir).unwrap(), Writer { uid: "u".into(), incarnation: "i".into() }, dir)
    }

    #[test]
    fn a_pruned_token_is_still_refused() {
        let (tokens, writer, dir) = store("prune");
        tokens.void("void-1", &writer).unwrap();
        tokens.finish("done-1", &writer, 1, &Frame::bare("done-1", Outcome::Exited(0), 0)).unwrap();
        for n in 0..TOKENS_KEPT + 3 {
            tokens.void(&format!("t{n}"), &writer).unwrap();
        }
        assert_eq!(fs::read_dir(dir.join("tokens")).unwrap().count(), TOKENS_KEPT);
        assert_eq!(tokens.look_up("void-1").unwrap(), Some(Record::Void));
        assert_eq!(tokens.look_up("done-1").unwrap(), Some(Record::Used));
        assert_eq!(tokens.look_up("t0").unwrap(), Some(Record::Void));
        assert_eq!(tokens.look_up("t").unwrap(), None);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_retired_takes_eight_bytes_and_survives_a_torn_append() {
        let (tokens, writer, dir) = store("torn");
        for n in 0..TOKENS_KEPT + 2 {
            tokens.void(&format!("t{n}"), &writer).unwrap();
        }
        let path = dir.join("retired.hashes");
        assert_eq!(fs::metadata(&path).unwrap().len(), 16);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"torn").unwrap();
        assert_eq!(tokens.look_up("t1").unwrap(), Some(Record::Void));
        tokens.void("after", &writer).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 24);
        assert_eq!(tokens.look_up("t2").unwrap(), Some(Record::Void));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_form_of_a_retired_token_never_changes() {
        assert_eq!(retired_as("seed-7-1a2b", false), 0xf635_dc4c_7c02_e654_u64.to_be_bytes());
        assert_eq!(retired_as("seed-7-1a2b", true), (0xf635_dc4c_7c02_e654_u64 | 1).to_be_bytes());
        let all: std::collections::BTreeSet<_> =
            (0..100_000).map(|n| retired_as(&format!("sequence-0-{n}"), false)).collect();
        assert_eq!(all.len(), 100_000);
    }

    #[test]
    fn it_is_full_at_its_bound() {
        let (mut tokens, writer, dir) = store("full");
        tokens.most = 3;
        for n in 0..TOKENS_KEPT + 3 {
            assert!(!tokens.is_full().unwrap(), "{n}");
            tokens.void(&format!("t{n}"), &writer).unwrap();
        }
        assert!(tokens.is_full().unwrap());
        assert_eq!(tokens.look_up("t0").unwrap(), Some(Record::Void));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_an_earlier_runner_retired_is_refused() {
        let (tokens, writer, dir) = store("lines");
        fs::write(dir.join("retired"), "\ndone-1 used\n\nvoid-1 void\nvoi").unwrap();
        assert_eq!(tokens.look_up("done-1").unwrap(), Some(Record::Used));
        assert_eq!(tokens.look_up("void-1").unwrap(), Some(Record::Void));
        assert_eq!(tokens.look_up("voi").unwrap(), None);
        tokens.void("next", &writer).unwrap();
        assert_eq!(tokens.look_up("done-1").unwrap(), Some(Record::Used));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_damaged_record_counts_as_used() {
        let (tokens, writer, dir) = store("damage");
        tokens.finish("t", &writer, 1, &Frame::bare("t", Outcome::Exited(0), 0)).unwrap();
        let path = dir.join("tokens/t");
        let bytes = fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            assert_eq!(tokens.look_up("t").unwrap(), Some(Record::Used), "cut at {length}");
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
