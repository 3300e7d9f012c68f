//! Plays a story and returns it with its output. Lines: `= NAME`, `# comment`, `> command`, and output after two spaces.
//!
//! The commands are in `Story::execute`. A story begins with `> group`, or with `> serving`: a group that has formed. Each `> run` ends by planning again and
//! finding nothing to do, and so does the story (`ending.rs`).
mod words;

use super::agreement::Lie;
use super::app::{App, Behaviour, Data};
use super::ending::Ending;
use super::world::{World, command};
use super::{db, policies, sequence, setting, shown};
use tanist_core::contract::{MemberName, Phase, Role};
use tanist_core::plan::Plan;
use tanist_core::policy::Policies;
use tanist_core::record::Record;
use tanist_core::snapshot::{ClaimMark, Node, Object, Override, Snapshot};
use words::{batch, mode, number, ordinal, pairs, policy, ran, role, upgrade_on};

/// Plays the story `text` of that file and returns it with the present output.
pub fn play(file: &str, text: &str) -> String {
    let (mut story, mut ending): (Option<Story>, _) = (None, Ending::default());
    let mut out = String::new();
    let empty = text.len() - text.trim_end().len();
    for line in text.trim_end().lines().filter(|l| !l.starts_with("  ")) {
        out.push_str(line);
        out.push('\n');
        let Some(words) = line.strip_prefix("> ") else { continue };
        assert!(ending.is_open(), "{file}: {words:?} after the end");
        let said = match (&mut story, words.split_once(' ').unwrap_or((words, ""))) {
            (None, ("group", rest)) => {
                story = Some(Story::new(rest));
                Vec::new()
            }
            (None, ("serving", rest)) => {
                let mut serving = Story::new(rest);
                let said = serving.serve(rest);
                story = Some(serving);
                said
            }
            (None, _) => panic!("{file}: {words:?} before > group"),
            (Some(_), ("group" | "serving", _)) => panic!("{file}: a story has one group"),
            (Some(_), ("ends", rest)) => {
                ending = Ending::read(rest);
                Vec::new()
            }
            (Some(story), _) => story.execute(words),
        };
        said.iter().for_each(|said| out.push_str(&format!("  {said}\n")));
    }
    let mut story = story.unwrap_or_else(|| panic!("{file}: a story without a group"));
    let (_, last) = story.last.as_ref().unwrap_or_else(|| panic!("{file}: a story in which no round is played"));
    out.push_str(&format!("  {}\n", ending.reached(&mut story.world, story.policies.as_ref(), last)));
    out.push_str(&"\n".repeat(empty.saturating_sub(1)));
    out
}

struct Story {
    world: World,
    policies: Box<dyn Policies>,
    last: Option<(Snapshot, Plan)>,
}

impl Story {
    /// `group replicas=3 primaries=1 commands=seed,secondary peers=middle`: all pods run, nothing was ever started.
    fn new(words: &str) -> Self {
        let given = pairs(words);
        let replicas = number(given.get("replicas").unwrap_or(&"3"));
        let primaries = number(given.get("primaries").unwrap_or(&"1"));
        let mut world = World::new(replicas, primaries);
        for name in given.get("commands").unwrap_or(&"").split(',') {
            let desired = Some(command(name));
            match name {
                "seed" => world.group.commands.seed = desired,
                "secondary" => world.group.commands.secondary = desired,
                "promote" => world.group.commands.promote = desired,
                "follow" => world.group.commands.follow = desired,
                "beforeUpdate" => world.group.commands.hooks.before = desired,
                "afterUpdate" => world.group.commands.hooks.after = desired,
                "upgrade" => world.group.commands.upgrade = desired,
                "recover" => world.group.commands.membership.as_mut().unwrap().recover = desired,
                "members" | "learners" => world.group.commands.membership = Some(setting::members(name == "learners")),
                _ => {}
            }
        }
        if given.contains_key("peers") {
            world.group.commands.primary.exec = ["join", "$(PEERS)", "--quick"].map(str::to_owned).to_vec();
        }
        Story { world, policies: Box::new(policies::Natural), last: None }
    }

    /// `serving commands=secondary data=9,9,4`: the same group once it has formed. The first members lead, the others follow if there is a command for that; each
    /// has its data, 9 unless said. It is played until it is routed.
    fn serve(&mut self, words: &str) -> Vec<String> {
        let (given, group) = (pairs(words), &self.world.group);
        let data: Vec<_> = given.get("data").map_or(Vec::new(), |data| data.split(',').collect());
        let (replicas, primaries, follows) = (group.replicas, group.primaries, group.commands.secondary.is_some());
        for ordinal in 0..replicas {
            let index = usize::try_from(ordinal).unwrap();
            self.world.remember(ordinal, 1, data.get(index).unwrap_or(&"9"));
            let leads = ordinal < primaries;
            if leads {
                self.world.record.member_mut(&db(ordinal)).primary_term = Some(1);
            }
            self.world.body(ordinal).app.role = match leads {
                true => Role::Primary,
                false if follows => Role::Secondary,
                false => Role::Stopped,
            };
        }
        if self.world.group.commands.membership.is_some() {
            self.world.form(0..replicas);
        }
        self.world.record.term = 1;
        let mut said = self.run(0);
        let members = said.pop();
        assert!(said.iter().all(|line| line.contains(" route ")), "a group that serves needs nothing: {said:?}");
        members.into_iter().collect()
    }

    fn execute(&mut self, words: &str) -> Vec<String> {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let args: Vec<_> = rest.split_whitespace().collect();
        match verb {
            "run" => return self.run(args.first().map_or(0, |n| number(n))),
            "rounds" => return self.rounds(number(rest)),
            "wait" => self.world.now += number::<i64>(rest),
            "write" => self.write(&args),
            "policy" => self.policies = policy(rest),
            "command" => self.command(rest),
            "data" => self.data(args[0], args[1]),
            "remember" => self.remember(rest),
            "runs" => args.iter().skip(1).for_each(|m| self.world.body(ordinal(m)).app.role = role(args[0])),
            "status" => self.status(&args),
            "processes" => self.world.body(ordinal(args[0])).app.processes = Some(number(args[1])),
            "container" => self.world.restart(ordinal(args[0])),
            "crash" => self.crash(&args),
            "pod" => self.pod(args[0], &args[1..]),
            "node" => self.node(args[0], args[1]),
            "older" => args.iter().for_each(|m| self.world.older(ordinal(m))),
            "volume" => self.world.new_volume(ordinal(args[0])),
            "mark" => self.mark(args[0], rest),
            "spec" => self.spec(rest),
            "override" => self.set_override(rest),
            "recover" => self.recover(&args),
            "retry" => self.world.group.retry = Some(rest.into()),
            "unlabel" => self.world.body(ordinal(args[0])).pod.routed = None,
            "wipe" => self.world.record = Record::default(),
            "surplus" => self.world.surplus_claims.push(rest.into()),
            "object" => self.object(args[0], args[1]),
            "identity" => self.identity(args[0]),
            "form" => self.world.form(args.iter().map(|o| number(o))),
            "list" => self.list(ordinal(args[0]), args[1]),
            "show" => {
                let (snapshot, plan) = self.last.as_ref().expect("> show follows > run");
                return shown::show(snapshot, plan, rest);
            }
            other => panic!("{other:?} is no command"),
        }
        Vec::new()
    }

    fn run(&mut self, seconds: i64) -> Vec<String> {
        self.world.log.clear();
        let (snapshot, plan) = self.world.play(self.policies.as_ref(), seconds);
        let mut said = std::mem::take(&mut self.world.log);
        said.extend(plan.waits.iter().map(|w| {
            let until = w.until.map(|at| format!(" (+{})", at - super::world::START)).unwrap_or_default();
            format!("waits {}: {}{until}", w.reason.as_str(), w.message)
        }));
        said.push(self.members(&snapshot));
        self.last = Some((snapshot, plan));
        said
    }

    /// Plays rounds one after the other, even if nothing changes, and returns how many commands were started.
    fn rounds(&mut self, count: usize) -> Vec<String> {
        self.world.log.clear();
        self.world.started.clear();
        for _ in 0..count {
            let (snapshot, plan, _) = self.world.round(self.policies.as_ref());
            self.last = Some((snapshot, plan));
        }
        let mut said = std::mem::take(&mut self.world.log);
        said.push(format!("{} commands were started", self.world.started.len()));
        said
    }

    fn members(&self, s: &Snapshot) -> String {
        let describe = |m: &tanist_core::snapshot::Member| {
            let (role, _) = s.role(m);
            let data = self.world.volumes.get(&m.ordinal).map_or("-".into(), |v| match &v.data {
                Data::Empty => "EMPTY".to_owned(),
                Data::Known(known) => known.to_string(),
                Data::Unreadable(_) => "unreadable".into(),
            });
            let term = s.record.member(&m.name).term.map(|t| format!(" of term {t}")).unwrap_or_default();
            let shown =
                m.pod.as_ref().and_then(|p| p.routed.as_deref()).map(|r| format!(" as {r}")).unwrap_or_default();
            let pod = if s.reachable(m) { "" } else { " no pod" };
            format!("{} {}{shown}{pod} {data}{term}", m.name, tanist_core::over::role_word(role))
        };
        let members: Vec<_> = s.members.iter().map(describe).collect();
        format!("term {}: {}", s.record.term, members.join(" | "))
    }

    /// `write 5`: all running members have the writes; `write 5 db-0 db-1`: only these.
    fn write(&mut self, args: &[&str]) {
        let held: Vec<_> = self.world.volumes.iter().map(|(o, v)| (*o, v.data.clone(), v.written)).collect();
        self.world.write(number(args[0]));
        for (ordinal, data, written) in held.into_iter().filter(|_| args.len() > 1) {
            if !args.contains(&db(ordinal).as_str()) {
                let volume = self.world.volumes.get_mut(&ordinal).unwrap();
                (volume.data, volume.written) = (data, written);
            }
        }
    }

    /// `command db-0 seed fails 1`: the next execution behaves like that; with `always` at the end every execution does.
    fn command(&mut self, words: &str) {
        let args: Vec<_> = words.split_whitespace().collect();
        let arg = |n: usize| args.get(n).map_or(0, |t| t.parse().unwrap_or(0));
        let behaviour = match args[2] {
            "works" => Behaviour::Works(arg(3)),
            "fails" => Behaviour::Fails(i32::try_from(arg(3)).unwrap()),
            "spoils" => Behaviour::Spoils(u64::try_from(arg(3)).unwrap(), 1),
            "lies" => Behaviour::Lies,
            "vanishes" => Behaviour::Vanishes,
            "late" => Behaviour::Late(arg(3)),
            "hangs" => Behaviour::Hangs,
            "expires" => Behaviour::Expires,
            "never" => Behaviour::NeverStarts,
            "refused" => Behaviour::Refused(args[3].into()),
            "starts" => Behaviour::Starts(arg(3)),
            other => panic!("{other:?} is no behaviour"),
        };
        let always = args.last() == Some(&"always");
        self.world.behaviours.push((MemberName::from(args[0]), args[1].into(), behaviour, always));
    }

    fn data(&mut self, member: &str, data: &str) {
        let volume = self.world.volumes.get_mut(&ordinal(member)).unwrap();
        volume.data = match data {
            "EMPTY" => Data::Empty,
            "unreadable" => Data::Unreadable(sequence("999")),
            known => Data::Known(sequence(known)),
        };
        if let Some(body) = self.world.pods.get_mut(&ordinal(member)) {
            body.read = None;
        }
    }

    /// `remember db-0=9 db-1=4@2 term=3`: data and the term it was confirmed in (the group's, unless said).
    fn remember(&mut self, words: &str) {
        let given = pairs(words);
        let term = given.get("term").map_or(1, |t| number(t));
        for (member, data) in given.iter().filter(|(k, _)| k.starts_with("db-")) {
            let (data, own) = data.split_once('@').map_or((*data, term), |(d, t)| (d, number(t)));
            self.world.remember(ordinal(member), own, data);
        }
        self.world.record.term = term;
        if let Some(last) = given.get("last") {
            self.world.record.last_replicas = number(last);
        }
        if let Some(mark) = given.get("high") {
            let sequence = sequence(mark);
            self.world.record.high_water = Some(tanist_core::record::Mark { term, sequence });
        }
        for member in given.get("led").map_or(Vec::new(), |l| l.split(',').collect()) {
            self.world.record.member_mut(&MemberName::from(member)).primary_term = Some(term);
        }
    }

    /// `mark db-1 term=6 data=9 led=db-1,db-2 node=node-1`: the annotations of a claim. With a node each primary ran there, in a pod that does not
    /// exist; without one the annotations are those of an older operator. `mark db-1 gone` removes them.
    fn mark(&mut self, member: &str, words: &str) {
        let given = pairs(words);
        let led: Vec<_> = given.get("led").map_or(Vec::new(), |l| l.split(',').map(MemberName::from).collect());
        let ran = |node: &&str| led.iter().map(|m| ran(m, node)).collect();
        let mark = given.get("term").map(|term| ClaimMark {
            version: None,
            membership: None,
            group: "db".into(),
            term: number(term),
            sequence: given.get("data").map(|d| sequence(d)),
            ran: given.get("node").map_or(Vec::new(), ran),
            primaries: led.clone(),
        });
        self.world.volumes.get_mut(&ordinal(member)).unwrap().mark = mark;
    }

    /// `status db-0 unknown`, `status db-0 honest`.
    fn status(&mut self, args: &[&str]) {
        self.world.body(ordinal(args[0])).app.probe = (args[1] != "honest").then(|| role(args[1]));
    }

    /// `crash`: everyone; `crash db-1`: the application dies in its container.
    fn crash(&mut self, args: &[&str]) {
        for (ordinal, body) in &mut self.world.pods {
            if args.is_empty() || args.contains(&db(*ordinal).as_str()) {
                body.app = App::stopped();
            }
        }
    }

    fn pod(&mut self, member: &str, how: &[&str]) {
        let ordinal = ordinal(member);
        match how[0] {
            "replaced" => self.world.delete(ordinal),
            "forced" => self.world.forget(ordinal),
            // An orderly deletion while no operator watches; `seen` is what the API server tells of it later.
            "unseen" => {
                let uid = self.world.body(ordinal).pod.uid.clone();
                self.world.delete(ordinal);
                self.world.ended.remove(&uid);
            }
            "seen" => {
                let of_member = self.world.record.last_primaries.iter().filter(|l| l.member.as_str() == member);
                self.world.ended.extend(of_member.map(|l| l.pod_uid.clone()));
            }
            "gone" => {
                self.world.respawn = false;
                if how.get(1) == Some(&"forced") {
                    self.world.forget(ordinal)
                } else {
                    self.world.delete(ordinal)
                };
            }
            "back" => {
                self.world.respawn = true;
                self.world.new_pod(ordinal);
            }
            "ended" => {
                let body = self.world.body(ordinal);
                body.pod.phase = Phase::Ended;
                body.app = App::stopped();
                body.pod.containers.get_mut("db").unwrap().running = false;
            }
            phase => {
                let running = matches!(phase, "running" | "terminating" | "unreachable");
                let body = self.world.body(ordinal);
                body.pod.phase = match phase {
                    "running" => Phase::Running,
                    "pending" => Phase::Pending,
                    "terminating" => Phase::Terminating,
                    "unreachable" => Phase::Unreachable,
                    other => panic!("{other:?} is no phase"),
                };
                body.pod.containers.get_mut("db").unwrap().running = running;
            }
        }
    }

    fn node(&mut self, name: &str, how: &str) {
        let now = self.world.now;
        if name == "all" {
            self.world.nodes_known = how != "hidden";
            return;
        }
        match how {
            "deleted" => self.world.delete_node(name),
            _ => {
                let (ready, cordoned) = (matches!(how, "ready" | "cordoned"), how == "cordoned");
                let out_of_service = how == "out-of-service";
                let node = Node { ready, since: now, seen: now, out_of_service, cordoned, zone: None };
                self.world.nodes.insert(name.into(), node);
            }
        }
    }

    /// `spec primaries=2 paused=true`: a new generation.
    fn spec(&mut self, words: &str) {
        self.world.group.generation += 1;
        for (key, value) in pairs(words) {
            let group = &mut self.world.group;
            match key {
                "primaries" => group.primaries = number(value),
                "replicas" => group.replicas = number(value),
                "set" => self.world.set.as_mut().unwrap().replicas = number(value),
                "preferred" => group.preferred_primary = Some(MemberName::from(value)),
                "reads" => group.failover.reads = Some(number(value)),
                "maxBehind" => group.failover.max_behind = Some(number(value)),
                "preferRunning" => group.failover.prefer_running = value == "true",
                "paused" => group.paused = value == "true",
                "runner" => group.runner = value == "true",
                "starting" => group.start_deadline = number(value),
                "resizeDeadline" => group.resize_deadline = value.parse().unwrap(),
                "update" => group.update.mode = mode(value),
                "batch" => group.update.batch = batch(value),
                "updateTimeout" => group.update.timeout = number(value),
                "version" => self.world.name_version(value),
                "upgradeOn" => group.update.upgrade_on = upgrade_on(value),
                "removalRest" => group.removal_rest = number(value),
                "updateWait" => group.update.wait = number(value),
                "deletesVolumes" => group.deletes_volumes = value == "true",
                other => panic!("{other:?} is not in the spec"),
            }
        }
    }

    /// `override db-1 9 3`: member, sequence, term. `override broken WHY`.
    fn set_override(&mut self, words: &str) {
        let args: Vec<_> = words.split_whitespace().collect();
        if args[0] == "broken" {
            self.world.group.override_error = Some(words.into());
            return;
        }
        let position = tanist_core::data::read_sequence(args[1].as_bytes()).unwrap();
        let requested =
            Override { member: MemberName::from(args[0]), position, term: number(args[2]), raw: words.into() };
        self.world.group.requested_override = Some(requested);
    }

    /// `identity db-0`: the volume was restored, so it has the identity that the member had.
    fn identity(&mut self, member: &str) {
        let (own, agreement) = (ordinal(member), &mut self.world.agreement);
        let id = agreement.members.iter().find(|(_, listed)| listed.ordinal == own).map(|(id, _)| id.clone());
        agreement.identities.insert(self.world.volumes[&own].uid.clone(), id.unwrap());
    }

    /// `recover db-1`: an administrator asks for it, and names what there is; `recover db-1 list=3`, `claim=c9`, `group=other`, `restored`: something else. `recover withdrawn`; `recover broken WHY`.
    fn recover(&mut self, args: &[&str]) {
        self.world.group.requested_recovery = None;
        self.world.group.recovery_error = (args[0] == "broken").then(|| args.join(" "));
        if matches!(args[0], "broken" | "withdrawn") {
            return;
        }
        let words = args.join(" ");
        let given = pairs(&words);
        let request = self.world.ask_recovery(ordinal(args[0]), args.contains(&"restored"));
        given.get("group").into_iter().for_each(|group| request.group = group.to_string());
        given.get("claim").into_iter().for_each(|claim| request.claim = claim.to_string());
        given.get("list").into_iter().for_each(|list| request.list = number(list));
    }

    /// `list db-1 fails`, `split`, `differs`, `alone`, `honest`: what the member says of who is a member.
    fn list(&mut self, ordinal: u32, how: &str) {
        let lie = match how {
            "fails" => Some(Lie::Fails),
            "split" => Some(Lie::Split),
            "differs" => Some(Lie::Differs),
            "alone" => Some(Lie::Alone),
            "honest" => None,
            other => panic!("{other:?} is no list"),
        };
        match lie {
            Some(lie) => drop(self.world.agreement.lies.insert(ordinal, lie)),
            None => drop(self.world.agreement.lies.remove(&ordinal)),
        }
    }

    fn object(&mut self, kind: &str, name: &str) {
        let manifest = serde_json::Value::Null.into();
        let (kind, name) = (kind.into(), name.into());
        self.world.objects.push(Object { kind, name, manifest, current: false, version: None, trial: None });
    }
}
