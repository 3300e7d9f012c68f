//! Puts one question to the policies and checks the answer.
use crate::check;
use crate::check::{Rule, Violation};
use crate::contract::{Answer, Care, MemberName, Position, Ranking, Role, Treatment};
use crate::plan::{Considered, DecidedBy, Decision, Plan, Reason, Standing};
use crate::policy::{self, Answered, Point, Policies, Reply, Unanswered};
use crate::question::question;
use crate::record::cut;
use crate::snapshot::{Member, Override, Snapshot};
use std::collections::BTreeMap;

/// The members that may not be chosen, with the rule that bars each.
pub type Bars = BTreeMap<MemberName, Violation>;

/// Bars every member for which the rule does not hold.
pub fn bars(s: &Snapshot, rule: impl Fn(&Member) -> check::Held) -> Bars {
    s.members.iter().filter_map(|m| rule(m).err().map(|v| (m.name.clone(), v))).collect()
}

/// Asks which member is chosen. `None`: none for now; the plan says why.
pub fn choose_member(
    s: &Snapshot,
    policies: &dyn Policies,
    plan: &mut Plan,
    point: Point,
    bars: &Bars,
) -> Option<MemberName> {
    let answered = ask_policies(s, policies, plan, point, bars)?;
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => {
            let decision = policy_decision(s, point, &answered, ranking, bars);
            let chosen = decision.chosen.clone();
            plan.decisions.push(decision);
            chosen
        }
        other => report_no_choice(plan, &answered, point, other),
    }
}

/// Asks what is done with failed members. Empty: nothing for now.
pub fn choose_treatments(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, bars: &Bars) -> Vec<Treatment> {
    let Some(answered) = ask_policies(s, policies, plan, Point::Treat, bars) else { return Vec::new() };
    match &answered.reply {
        Reply::Care(Care::Treat(treatments)) => treatments.clone(),
        other => report_no_choice(plan, &answered, Point::Treat, other).unwrap_or_default(),
    }
}

/// What the policies say to an optional question.
pub(super) enum Opinion {
    /// None of them has one: the host decides by itself.
    None,
    /// There is no answer that could be used; the plan says why.
    NoAnswer,
    /// There is none yet, and nothing is wrong with a policy: the question is asked again by itself.
    NotYet,
    /// That is the answer. Never an abstention.
    Of(Answered),
}

/// Puts an optional question to the policies. Nobody is asked if every member is barred.
pub(super) fn ask_optional(
    s: &Snapshot,
    policies: &dyn Policies,
    plan: &mut Plan,
    point: Point,
    bars: &Bars,
) -> Opinion {
    if !policies.has(point) || bars.len() >= s.members.len() {
        return Opinion::None;
    }
    let texts = bars.iter().map(|(name, v)| (name.clone(), cut(&v.message))).collect();
    let question = question(s, point, &texts);
    let answered = match policies.ask(&question) {
        Ok(answered) => answered,
        Err(unanswered) if unanswered.is_abstention() => return Opinion::None,
        Err(unanswered) => {
            let opinion = if unanswered.is_delay() { Opinion::NotYet } else { Opinion::NoAnswer };
            report_unanswered(s, plan, point, unanswered);
            return opinion;
        }
    };
    if let Err(violation) = check::reply(&question, &answered.reply) {
        report_rejected::<()>(plan, &answered, violation);
        return Opinion::NoAnswer;
    }
    match &answered.reply {
        Reply::Answer(Answer::Abstain) => Opinion::None,
        Reply::Answer(_) => Opinion::Of(answered),
        Reply::Care(_) => {
            report_mismatch::<()>(plan, &answered, point);
            Opinion::NoAnswer
        }
    }
}

/// Adds to the plan why the policy chose no member.
fn report_no_choice<T>(plan: &mut Plan, answered: &Answered, point: Point, reply: &Reply) -> Option<T> {
    match reply {
        Reply::Answer(Answer::Wait(delay)) | Reply::Care(Care::Wait(delay)) => {
            let message = format!("policy {} waits: {}", answered.policy.name, cut(&delay.reason));
            plan.wait_until(Reason::PolicyWaits, None, message, delay.until);
            None
        }
        Reply::Answer(Answer::Refuse(why)) | Reply::Care(Care::Refuse(why)) => report_refusal(plan, answered, why),
        Reply::Answer(Answer::Choose(_) | Answer::Abstain) | Reply::Care(Care::Treat(_) | Care::Abstain) => {
            report_mismatch(plan, answered, point)
        }
    }
}

/// Asks the policies and checks the answer. `None`: all members are barred, no policy answered, or the answer breaks a rule; the plan says which.
fn ask_policies(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, point: Point, bars: &Bars) -> Option<Answered> {
    if bars.len() >= s.members.len() {
        report_no_candidate(s, plan, point, bars);
        return None;
    }
    let texts = bars.iter().map(|(name, v)| (name.clone(), cut(&v.message))).collect();
    let question = question(s, point, &texts);
    match policies.ask(&question) {
        Ok(answered) => match check::reply(&question, &answered.reply) {
            Ok(()) => Some(answered),
            Err(violation) => report_rejected(plan, &answered, violation),
        },
        Err(unanswered) => {
            report_unanswered(s, plan, point, unanswered);
            None
        }
    }
}

/// Reports why no policy answered. A policy that is being loaded wakes the group itself; a question that the machine's load cut off is asked
/// again after a second. Neither says that a policy is broken.
pub(super) fn report_unanswered(s: &Snapshot, plan: &mut Plan, point: Point, unanswered: Unanswered) {
    let why = cut(&unanswered.message);
    match unanswered.kind {
        policy::LOADING => plan.wait(Reason::PolicyLoading, None, format!("{point} is not answered yet: {why}")),
        policy::CUT_OFF => {
            let message = format!("{point} is not answered yet: {why}");
            plan.wait_until(Reason::DecisionDelayed, None, message, Some(s.now.saturating_add(1)));
        }
        _ => {
            let message = match unanswered.policy.is_none() {
                true => format!("no policy could answer {point}: {why}"),
                false => format!("policy {} could not answer {point}: {why}", unanswered.policy),
            };
            plan.wait(Reason::PolicyBroken, None, message);
            plan.broken.push(unanswered);
        }
    }
}

/// Reports why an unused override has no effect.
pub fn report_unusable_override(s: &Snapshot, plan: &mut Plan) {
    if let Some(why) = override_problem(s) {
        plan.wait(Reason::OverrideInvalid, None, why);
    }
}

fn override_problem(s: &Snapshot) -> Option<String> {
    if let Some(why) = &s.group.override_error {
        return Some(why.clone());
    }
    let requested = s.unused_override()?;
    if s.member(&requested.member).is_none() {
        return Some(format!("the override names {}, which is not a member of this group", requested.member));
    }
    let (named, term) = (requested.term, s.record.term);
    (named != term).then(|| format!("the override names term {named}, but the group is in term {term}; it is ignored"))
}

/// Decides by an administrator's override, without asking a policy. `None`: the override does not fit; the plan says why.
pub fn decide_by_override(
    s: &Snapshot,
    plan: &mut Plan,
    point: Point,
    requested: &Override,
    bars: &Bars,
) -> Option<MemberName> {
    if bars.contains_key(&requested.member) || s.member(&requested.member).is_none() {
        report_no_candidate(s, plan, point, bars);
        return None;
    }
    let reason = "an administrator chose it with the annotation tanist.dev/override";
    let candidates = s.members.iter().map(|m| match bars.get(&m.name) {
        Some(violation) => considered(m, Standing::Barred, &violation.message),
        None => considered(m, Standing::Chosen, reason),
    });
    plan.decisions.push(Decision {
        at: s.now,
        point,
        by: DecidedBy::Administrator,
        term: s.record.term,
        chosen: Some(requested.member.clone()),
        reason: reason.into(),
        candidates: candidates.collect(),
        notes: vec![],
    });
    Some(requested.member.clone())
}

/// Whether nobody is free and somebody is only not listed by the application yet, or on another volume: another step says what is awaited there.
pub(super) fn waits_for_the_list(bars: &Bars, members: usize) -> bool {
    let of_the_list =
        |v: &Violation| matches!(v.rule, Rule::NotListed | Rule::SecondIdentity | Rule::ListUnknown | Rule::SplitBrain);
    bars.len() == members && bars.values().any(of_the_list)
}

/// Reports that every member is barred, with the reason that fits best. The group is stalled if only an administrator or a back-off can change that.
fn report_no_candidate(s: &Snapshot, plan: &mut Plan, point: Point, bars: &Bars) {
    let any = |rules: &[Rule]| bars.values().any(|v| rules.contains(&v.rule));
    let texts: Vec<_> = bars.iter().map(|(name, v)| format!("{name}: {}", v.message)).collect();
    let until = bars.values().filter_map(|v| v.until).min();
    let message = format!("no member can be chosen for {point}: {}", texts.join("; "));
    let reason = if any(&[Rule::BackOff, Rule::MemberFailed]) {
        Reason::CandidatesFailed
    } else if any(&[Rule::BelowHighWater]) {
        Reason::BelowHighWater
    } else if any(&[Rule::TargetUnreachable]) {
        Reason::PodsNotRunning
    } else if any(&[Rule::MemberBusy]) {
        Reason::CommandRunning
    } else if any(&[Rule::MayBePrimary]) {
        Reason::MayBePrimary
    } else if s.members.iter().any(|m| matches!(s.role(m).0, Role::Starting | Role::Unknown)) {
        Reason::MembersNotStopped
    } else if any(&[Rule::ClaimChanged]) {
        Reason::ClaimChanged
    } else {
        Reason::NoCandidate
    };
    if matches!(reason, Reason::CandidatesFailed | Reason::BelowHighWater | Reason::NoCandidate) {
        plan.stalled = Some(cut(&message));
    }
    plan.wait_until(reason, None, message, until);
    let candidates =
        s.members.iter().filter_map(|m| bars.get(&m.name).map(|v| considered(m, Standing::Barred, &v.message)));
    plan.decisions.push(Decision {
        at: s.now,
        point,
        by: DecidedBy::NoCandidate,
        term: s.record.term,
        chosen: None,
        reason: "no member can be chosen".into(),
        candidates: candidates.collect(),
        notes: vec![],
    });
}

pub(super) fn policy_decision(
    s: &Snapshot,
    point: Point,
    answered: &Answered,
    ranking: &Ranking,
    bars: &Bars,
) -> Decision {
    let first = ranking.candidates.first();
    let reasons: BTreeMap<_, _> = ranking.candidates.iter().map(|c| (&c.member, &c.reason)).collect();
    let remarks: BTreeMap<_, _> = ranking.passed_over.iter().map(|r| (&r.member, r.reason.as_str())).collect();
    let candidates = s.members.iter().map(|m| {
        if let Some(violation) = bars.get(&m.name) {
            return considered(m, Standing::Barred, &violation.message);
        }
        if let Some(reason) = reasons.get(&m.name) {
            let chosen = first.is_some_and(|f| f.member == m.name);
            return considered(m, if chosen { Standing::Chosen } else { Standing::Fallback }, reason);
        }
        considered(m, Standing::PassedOver, remarks.get(&m.name).copied().unwrap_or("the policy gave no reason"))
    });
    Decision {
        at: s.now,
        point,
        by: DecidedBy::Policy(answered.policy.clone()),
        term: s.record.term,
        chosen: first.map(|c| c.member.clone()),
        reason: first.map(|c| cut(&c.reason)).unwrap_or_default(),
        candidates: candidates.collect(),
        notes: answered.notes.clone(),
    }
}

fn considered(m: &Member, result: Standing, reason: &str) -> Considered {
    let sequence = match &m.position {
        Position::Known(sequence) => Some(sequence.clone()),
        Position::Empty | Position::Unknown(_) | Position::NotAsked => None,
    };
    Considered { member: m.name.clone(), result, reason: cut(reason), sequence }
}

pub(super) fn report_rejected<T>(plan: &mut Plan, answered: &Answered, violation: Violation) -> Option<T> {
    let message = format!("the answer of policy {} was dropped: {}", answered.policy.name, violation.message);
    plan.wait(Reason::AnswerRejected, None, cut(&message));
    plan.violations.push(violation);
    None
}

pub(super) fn report_refusal<T>(plan: &mut Plan, answered: &Answered, why: &str) -> Option<T> {
    plan.wait(Reason::PolicyRefuses, None, format!("policy {} refuses: {}", answered.policy.name, cut(why)));
    None
}

pub(super) fn report_mismatch<T>(plan: &mut Plan, answered: &Answered, point: Point) -> Option<T> {
    plan.wait(
        Reason::PolicyBroken,
        None,
        format!("policy {} has no opinion on {point}, and no other policy was asked", answered.policy.name),
    );
    None
}
