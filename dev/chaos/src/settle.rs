//! What came of a round: a row of the table, and the judge's word.
use crate::background::now;
use crate::client::micros;
use crate::cluster::{GROUP, NODES};
use crate::journal::{Entry, Operation, Outcome};
use crate::judge::{
    missing, moved_again, new_pods, no_difference, not_once, silent_inside, too_soon, two_acknowledge, two_writable,
    unproven, unseen, wrong_ro, wrong_rw,
};
use crate::kinds::{Disturbed, Loss};
use crate::play::Play;
use crate::report::Round;
use crate::rounds::Scene;
use crate::steps::{self, Seen, steps};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

/// Of a pod that was deleted by force: its grace, and for how long its node has to be Ready then, in seconds.
const PROOF: i64 = 80 + 90;

impl Play {
    /// Looks at what is there, writes the row, and judges.
    ///
    /// # Errors
    /// When something cannot be read.
    pub async fn settle(&mut self, number: usize, scene: Scene) -> Result<()> {
        let acknowledged = self.journal()?;
        let labels = self.labels()?;
        let lost = self.has_everything(&acknowledged, &scene.to)?;
        self.read_all(&scene.to)?;
        let ended = scene.witness.ended();
        let loss =
            steps::Loss { at: scene.loss, from: &scene.from, to: &scene.to, container: &scene.pod.container, ended };
        let (group, endpoints) = (self.recorded("group")?, self.recorded("rw")?);
        let log = self.operator_log(scene.loss)?;
        let steps = steps(&loss, &Seen { group: &group, labels: &labels, endpoints: &endpoints, log: &log });
        let row = Round::new(number, &scene, steps, &acknowledged, lost);
        println!("{}", row.line());
        if let Some(why) = &row.waited_for {
            println!("    nobody took over while nobody knew: {why}");
        }
        if let Some(updated) = row.updated {
            println!("    all members were updated after {updated} ms");
            let broken = usize::from(scene.kind.loss == Loss::UpdateBroken);
            self.violated("not_once", &not_once(&new_pods(&self.recorded("pods")?, scene.loss), broken));
            self.violated("moved_again", &moved_again(&steps::commands(&log, scene.loss)));
        }
        self.rounds.push(row);
        self.violated("too_soon", &too_soon(&steps));
        if scene.kind.loss == Loss::PodForced {
            self.violated("unproven", &unproven(&steps, PROOF));
        }
        let journal = self.journal()?;
        self.judge_journal(&journal, scene.began)?;
        // Labels come by a watch, which is late while the API server is away.
        if !scene.kind.disturbed.is_some_and(Disturbed::api) {
            let of_round = since(&journal, scene.began);
            self.violated("wrong_ro", &wrong_ro(&of_round, &labels));
        }
        self.could_see(&journal, &scene);
        Ok(())
    }

    /// What every round, and the end, has to show; of what ended since that moment, but for histories, which are whole.
    fn judge_journal(&mut self, journal: &[Entry], began: u64) -> Result<()> {
        let of_round = since(journal, began);
        self.violated("two_acknowledge", &two_acknowledge(&of_round));
        self.violated("two_writable", &two_writable(&of_round));
        let illegal = self.history.illegal(journal)?;
        self.lost("illegal_history", &illegal);
        let routes = self.routes()?;
        self.violated("wrong_rw", &wrong_rw(&of_round, &routes));
        Ok(())
    }

    /// The judge itself: what it cannot see it cannot judge.
    fn could_see(&mut self, journal: &[Entry], scene: &Scene) {
        let Scene { kind, began, loss, told, from, pod, lagging, .. } = scene;
        let now = now();
        for node in NODES {
            // Without power nobody looks.
            if node != pod.node || !kind.loss.takes_power() {
                self.violated("unseen", &unseen(journal, *began, now, &format!("look-{node}")));
            }
        }
        if kind.loss == Loss::Partition {
            let until = told.unwrap_or(*loss);
            for client in ["beside", "rw"] {
                let client = format!("{client}-{}", pod.node);
                self.violated("silent_inside", &silent_inside(journal, *loss, until, &client));
            }
        }
        for laggard in lagging {
            self.violated("no_difference", &no_difference(journal, *loss, from, &laggard.name));
        }
    }

    /// How many acknowledged rows that member lacks, without those that an earlier round lost: they were told there. What was acknowledged after the journal
    /// was read need not be there.
    fn has_everything(&mut self, journal: &[Entry], member: &str) -> Result<usize> {
        let rows = self.cluster.sql(member, "SELECT client || '|' || id FROM chaos")?;
        let present: BTreeSet<String> = rows.lines().map(str::to_owned).collect();
        let new: Vec<_> = missing(journal, &present).into_iter().filter(|row| !self.lost.contains(row)).collect();
        self.lost.extend(new.iter().cloned());
        if let (Some(first), false) = (new.first(), self.wanted.setting.may_lose) {
            let said = format!("acknowledged rows are not on {member}, one is {first}");
            self.violations.push(format!("round {}: missing: {}: {said}", self.round, new.len()));
        }
        Ok(new.len())
    }

    /// Reads every register and list of the last five minutes once, so that what was lost is seen by the histories, too.
    fn read_all(&self, member: &str) -> Result<()> {
        let oldest = (now() / 5000).saturating_sub(60);
        let begin = micros();
        let said = self.cluster.sql(
            member,
            &format!(
                "SELECT 'read ' || key || ' ' || value FROM registers WHERE key > 'r{oldest}' \
                 UNION ALL SELECT 'list ' || key || ' ' || value FROM lists WHERE key > 'l{oldest}'"
            ),
        )?;
        let end = micros();
        let mut text = String::new();
        for line in said.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [operation, key, value] = words[..] else { continue };
            let read = Entry {
                begin,
                end,
                client: "judge".into(),
                operation: if operation == "list" { Operation::List } else { Operation::Read },
                key: key.into(),
                value: value.into(),
                outcome: Outcome::Ok,
                member: Some(member.into()),
                timeline: None,
            };
            text += &format!("{read}\n");
        }
        let mut journal = crate::background::appended(&self.work.journal())?;
        journal.write_all(text.as_bytes()).context("failed to write the journal")
    }

    /// Once more over everything, then the rows on every member.
    ///
    /// # Errors
    /// When something cannot be read.
    pub async fn at_the_end(&mut self) -> Result<()> {
        self.round = "end".into();
        self.read_all(&self.cluster.primary()?)?;
        let journal = self.journal()?;
        self.judge_journal(&journal, 0)?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        for member in 0..self.wanted.members {
            self.has_everything(&journal, &format!("{GROUP}-{member}"))?;
        }
        Ok(())
    }
}

/// What ended since that moment, in milliseconds.
fn since(journal: &[Entry], moment: u64) -> Vec<Entry> {
    journal.iter().filter(|entry| entry.end >= moment.saturating_mul(1000)).cloned().collect()
}
