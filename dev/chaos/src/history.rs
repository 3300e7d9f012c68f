//! Whether the clients' histories are linearizable. dev/history searches the order; here it is built and asked.
use crate::awake::forged;
use crate::journal::Entry;
use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use tanist_e2e::{cache, root, run, run_given};

/// The program, and what it said already.
pub struct History {
    program: PathBuf,
    told: BTreeSet<String>,
}

impl History {
    /// Builds the program where its present sources were not built yet.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn build() -> Result<Self> {
        let folder = root().join("dev/history");
        let mut names: Vec<_> = std::fs::read_dir(&folder)?.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
        names.sort();
        let mut sum = Sha256::new();
        for file in names.iter().filter(|file| !file.is_dir()) {
            sum.update(std::fs::read(file)?);
        }
        let bin = cache().join("bin");
        let program = bin.join(format!("history-{}", hexadecimal(&sum.finalize(), 16)));
        if !program.exists() {
            std::fs::create_dir_all(&bin)?;
            let part = program.with_extension("part");
            let mut build = Command::new("go");
            build.args(["build", "-trimpath", "-buildvcs=false", "-o"]).arg(&part).arg(".");
            run(build.current_dir(&folder).env("CGO_ENABLED", "0")).context("failed to build dev/history")?;
            std::fs::rename(&part, &program)?;
        }
        Ok(History { program, told: BTreeSet::new() })
    }

    /// A line for each history that fits no order, but for what was said of an earlier round.
    ///
    /// # Errors
    /// When the program cannot read the journal.
    pub fn illegal(&mut self, journal: &[Entry]) -> Result<Vec<String>> {
        let mut text = String::new();
        for entry in journal {
            writeln!(text, "{entry}")?;
        }
        let said = run_given(&mut Command::new(&self.program), &text).context("failed to check the histories")?;
        let new: BTreeSet<String> = said.lines().map(str::to_owned).filter(|line| !self.told.contains(line)).collect();
        self.told.extend(new.iter().cloned());
        Ok(new.into_iter().collect())
    }

    /// Forgets what it said.
    pub fn forget(&mut self) {
        self.told.clear();
    }

    /// That the program itself is right, its own tests show; here, that it is asked, and reads this very journal.
    ///
    /// # Errors
    /// When it does not find what was forged for it, or finds more.
    pub fn is_awake(&mut self) -> Result<()> {
        let stale = "500000 510000 rw write r1 x ok b 2\n520000 530000 beside-1 read r1 nil ok a 1";
        let torn = "500000 510000 rw append l1 x ok a 1\n520000 530000 rw append l1 y ok b 2\n\
                    540000 550000 rw list l1 y ok b 2";
        let found = [
            self.illegal(&forged("500000 510000 rw insert rw 4 ok b 2"))?.len(),
            self.illegal(&forged(stale))?.len(),
            // It was told already.
            self.illegal(&forged(stale))?.len(),
            self.illegal(&forged(torn))?.len(),
        ];
        self.forget();
        ensure!(found == [0, 1, 0, 1], "the judge sleeps: illegal histories were found {found:?} times");
        Ok(())
    }
}

/// The first so many digits.
pub fn hexadecimal(bytes: &[u8], digits: usize) -> String {
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}
