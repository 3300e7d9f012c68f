//! Policies for tests, written without a look at the built-in one: the default rule of the requirements (A7, A10, A13, A16, A25, A26) and
//! some that are wrong in their own ways.
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use tanist_core::contract::{
    Answer, Candidate, Care, Delay, Member, MemberName, Position, Ranking, Remark, Remedy, Treatment,
};
use tanist_core::policy::{
    ABSTAINED_ALL, Answered, LOADING, NOT_LOADED, Point, Policies, PolicyName, Question, Reply, Unanswered,
};

pub fn name(name: &str) -> PolicyName {
    PolicyName { name: name.into(), version: "1".into(), source: "test".into(), digest: String::new() }
}

#[expect(clippy::result_large_err, reason = "it is what `Policies` returns")]
pub fn answered(who: &str, reply: Reply) -> Result<Answered, Unanswered> {
    Ok(Answered { policy: name(who), reply, fuel: 0, notes: vec![] })
}

/// Highest term, then highest number, then lowest ordinal; no data comes after data, unknown last.
fn natural(m: &Member) -> impl Ord {
    let data = match &m.position {
        Position::Known(s) => Some((m.term, s.number)),
        _ => None,
    };
    let kind = match &m.position {
        Position::Known(_) => 0,
        Position::Empty => 1,
        Position::Unknown(_) | Position::NotAsked => 2,
    };
    (kind, Reverse(data), m.ordinal)
}

fn open(question: &Question) -> Vec<&Member> {
    question.snapshot.members.iter().filter(|m| m.barred.is_none()).collect()
}

fn choose(members: Vec<&Member>) -> Reply {
    let candidates =
        members.into_iter().map(|m| Candidate { member: m.name.clone(), reason: "in order".into(), source: None });
    Reply::Answer(Answer::Choose(Ranking { candidates: candidates.collect(), passed_over: Vec::new() }))
}

/// Stop what failed; when its stop failed, a new pod.
fn treat(question: &Question) -> Reply {
    let treatments = open(question).into_iter().map(|m| {
        let stop_failed = m.last_failure.as_ref().is_some_and(|f| f.command == "stop");
        let remedy = if stop_failed { Remedy::Recreate } else { Remedy::Stop };
        Treatment { member: m.name.clone(), remedy, reason: "in order".into() }
    });
    Reply::Care(Care::Treat(treatments.collect()))
}

/// The default rule.
pub struct Natural;

impl Policies for Natural {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let mut members = open(question);
        members.sort_by_key(|m| natural(m));
        if question.point == Point::Demote {
            members.reverse();
        }
        answered("natural", if question.point == Point::Treat { treat(question) } else { choose(members) })
    }
}

/// The default rule backwards.
pub struct Reversed;

impl Policies for Reversed {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let mut members = open(question);
        members.sort_by_key(|m| Reverse(natural(m)));
        if question.point == Point::Demote {
            members.reverse();
        }
        answered("reversed", if question.point == Point::Treat { treat(question) } else { choose(members) })
    }
}

/// Cannot answer.
pub struct Broken;

impl Policies for Broken {
    fn ask(&self, _: &Question) -> Result<Answered, Unanswered> {
        Err(Unanswered { policy: name("broken"), kind: "trap", message: "it fell over".into(), notes: vec![] })
    }
}

/// Never answers, for that reason, and nothing is wrong with it.
pub struct Delays(pub &'static str);

impl Policies for Delays {
    fn ask(&self, _: &Question) -> Result<Answered, Unanswered> {
        Err(Unanswered { policy: name("late"), kind: self.0, message: "not now".into(), notes: vec![] })
    }
}

/// Always waits.
pub struct Waits;

impl Policies for Waits {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let delay = Delay { reason: "not now".into(), until: None };
        let reply = match question.point {
            Point::Treat => Reply::Care(Care::Wait(delay)),
            _ => Reply::Answer(Answer::Wait(delay)),
        };
        answered("waits", reply)
    }
}

/// Always refuses.
pub struct Refuses;

impl Policies for Refuses {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let why = "an administrator has to look".to_owned();
        let reply = match question.point {
            Point::Treat => Reply::Care(Care::Refuse(why)),
            _ => Reply::Answer(Answer::Refuse(why)),
        };
        answered("refuses", reply)
    }
}

/// Answers with the given reply, and records the questions.
pub struct Says {
    pub reply: Reply,
    pub asked: RefCell<Vec<Question>>,
}

impl Says {
    pub fn new(reply: Reply) -> Self {
        Says { reply, asked: RefCell::default() }
    }
}

impl Policies for Says {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        self.asked.borrow_mut().push(question.clone());
        answered("says", self.reply.clone())
    }
}

/// The default rule, with an opinion at one optional point: on the lead, or on which secondary moves.
pub struct At(pub Point, pub Lead);

impl Policies for At {
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || point == self.0
    }

    fn are_loaded(&self) -> bool {
        !matches!(self.1, Lead::Fails(LOADING | NOT_LOADED))
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        if question.point == self.0 { self.1.answer(question) } else { Natural.ask(question) }
    }
}

/// The default rule, with an opinion on the lead.
pub enum Lead {
    /// That member is to lead, where it may be chosen.
    To(MemberName),
    /// Always another member than the present one.
    Another,
    /// That member, whether it may be chosen or not.
    Insists(MemberName),
    /// Not now; asked again after so many seconds at most.
    Waits(Option<i64>),
    Refuses,
    Abstains,
    /// There is no answer, for that reason.
    Fails(&'static str),
}

impl Policies for Lead {
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || point == Point::Switchover
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        if question.point == Point::Switchover { self.answer(question) } else { Natural.ask(question) }
    }
}

impl Lead {
    #[expect(clippy::result_large_err, reason = "it is what `Policies` returns")]
    fn answer(&self, question: &Question) -> Result<Answered, Unanswered> {
        let who = if question.point == Point::Switchover { "lead" } else { "mover" };
        let only = |name: &MemberName| question.snapshot.members.iter().filter(|m| m.name == *name).collect();
        let answer = match self {
            Lead::To(name) if open(question).iter().all(|m| m.name != *name) => Answer::Abstain,
            Lead::To(name) | Lead::Insists(name) => return answered(who, choose(only(name))),
            Lead::Another => return answered(who, choose(open(question))),
            Lead::Waits(seconds) => Answer::Wait(Delay {
                reason: "not now".into(),
                until: seconds.map(|seconds| question.snapshot.now + seconds),
            }),
            Lead::Refuses => Answer::Refuse("an administrator has to look".into()),
            Lead::Abstains => Answer::Abstain,
            Lead::Fails(kind) => return Delays(kind).ask(question),
        };
        match answer {
            Answer::Abstain => Delays(ABSTAINED_ALL).ask(question),
            answer => answered(who, Reply::Answer(answer)),
        }
    }
}

/// A small generator, so that no test depends on a crate's stream (splitmix64).
pub struct Dice(pub Cell<u64>);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(Cell::new(seed))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }

    /// Once in `n` times.
    pub fn once_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Gives random answers: random, barred and unknown members, none, duplicates, wrong kinds, texts that are too long.
pub struct Random {
    pub dice: Dice,
    /// How often it was asked.
    pub answers: Cell<u64>,
    /// One answer in so many is sensible, so that the world moves at all.
    pub sense: usize,
}

impl Random {
    pub fn new(seed: u64, sense: usize) -> Self {
        Random { dice: Dice::new(seed), answers: Cell::new(0), sense }
    }

    fn member(&self, question: &Question) -> MemberName {
        match self.dice.below(12) {
            0 => MemberName::from("db-99"),
            1 => MemberName::from(""),
            _ => self.dice.pick(&question.snapshot.members).name.clone(),
        }
    }

    fn reason(&self) -> String {
        "x".repeat(if self.dice.once_in(20) { 257 } else { self.dice.below(257) })
    }

    fn delay(&self, question: &Question) -> Delay {
        let until =
            (!self.dice.once_in(3)).then(|| question.snapshot.now + i64::try_from(self.dice.below(40)).unwrap() - 10);
        Delay { reason: self.reason(), until }
    }

    fn answer(&self, question: &Question) -> Answer {
        match self.dice.below(10) {
            0 => Answer::Wait(self.delay(question)),
            1 => Answer::Refuse(self.reason()),
            2 => Answer::Abstain,
            _ => {
                let n = self.dice.below(4);
                let candidate = |_| Candidate {
                    member: self.member(question),
                    reason: self.reason(),
                    source: self.dice.once_in(15).then(|| self.member(question)),
                };
                let remark = |_| Remark { member: self.member(question), reason: self.reason() };
                Answer::Choose(Ranking {
                    candidates: (0..n).map(candidate).collect(),
                    passed_over: (0..self.dice.below(3)).map(remark).collect(),
                })
            }
        }
    }

    fn care(&self, question: &Question) -> Care {
        let remedies = [Remedy::Leave, Remedy::Stop, Remedy::Recreate, Remedy::Replace];
        match self.dice.below(10) {
            0 => Care::Wait(self.delay(question)),
            1 => Care::Refuse(self.reason()),
            2 => Care::Abstain,
            _ => Care::Treat(
                (0..self.dice.below(4))
                    .map(|_| Treatment {
                        member: self.member(question),
                        remedy: *self.dice.pick(&remedies),
                        reason: self.reason(),
                    })
                    .collect(),
            ),
        }
    }
}

impl Policies for Random {
    fn has(&self, _: Point) -> bool {
        true
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        self.answers.set(self.answers.get() + 1);
        if self.sense > 0 && self.dice.once_in(self.sense) {
            return Natural.ask(question);
        }
        if self.dice.once_in(15) {
            return Broken.ask(question);
        }
        let treat = (question.point == Point::Treat) != self.dice.once_in(30);
        let reply = if treat { Reply::Care(self.care(question)) } else { Reply::Answer(self.answer(question)) };
        answered("random", reply)
    }
}
