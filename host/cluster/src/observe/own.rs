//! Groups whose pods the operator makes itself (`spec.members.kind: Pods`, D23): who the members are, and what they lack.
use super::missing::READS;
use super::world::named;
use super::{Error, World, convert, revisions, within};
use crate::context::Context;
use crate::hints;
use crate::objects;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tanist_api::{ANNOTATION_POD_REVISION, LABEL_ZONE, ReplicaGroup};
use tanist_core::contract::{MemberName, Timestamp};
use tanist_core::freshness::Moment;
use tanist_core::limits;
use tanist_core::record::{Record, Seats};
use tanist_core::roster::{Roster, Seat, Standing, ordinal};
use tanist_core::snapshot::{Group, Missing, Object, Set};

/// Of how many members the objects are made in one look. They are held until the round has ended, a template may be large, and a group may have a thousand members.
const MADE_AT_ONCE: usize = 16;

impl World {
    /// The annotations of the Service with the group's name, which stand for those of a StatefulSet.
    pub(super) fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        let name = self.makes_pods.as_ref()?;
        named(&self.services, name)?.metadata.annotations.as_ref()
    }

    /// What takes the place of the StatefulSet.
    ///
    /// # Errors
    /// [`Error::NotOurs`]: a StatefulSet of that name would make pods of the same names. A group that runs goes on beside one.
    pub(super) fn no_set(&self, group: &Group, record: &Record) -> Result<Set, Error> {
        if self.set.is_some() && self.own_set(group).is_none() && record.seats.is_none() {
            return Err(Error::NotOurs("StatefulSet", group.name.clone()));
        }
        Ok(Set { uid: group.uid.clone(), ..Set::default() })
    }

    /// Who the members are, if the record does not say it, or is older than they are.
    pub(super) fn find_seats(&self, group: &Group, record: &mut Record) {
        if !group.makes_pods {
            return;
        }
        let number = |name: &str| ordinal(&group.name, name);
        // Whoever owns them: what runs in the pods of a group of before that has this name is waited for.
        let pods: BTreeSet<_> = self.pods.iter().filter_map(|pod| number(&pod.name_any())).collect();
        let volumes: BTreeSet<_> = self.claims().filter_map(|(member, _)| number(member.as_str())).collect();
        if let Some(seats) = record.seats.take() {
            record.seats = Some(self.placed(group, seats.joined(&pods.union(&volumes).copied().collect())));
            return;
        }
        let listed = record.membership.as_ref().map(|known| known.needed(&group.name).collect());
        // A group that never had a member has nothing to remember.
        if listed.is_some() || !pods.is_empty() || !volumes.is_empty() {
            record.seats = Some(self.placed(group, Seats::found(listed, &pods, &volumes)));
        }
    }

    /// Adds the zones of members of which the record does not say it, as their pods do. Where that is not known either, the nodes say it later.
    fn placed(&self, group: &Group, mut seats: Seats) -> Seats {
        for pod in self.pods.iter().filter(|_| !group.zones.is_empty()) {
            let number = ordinal(&group.name, &pod.name_any()).filter(|number| seats.numbers.contains(number));
            let zone = pod.labels().get(LABEL_ZONE);
            if let (Some(number), Some(zone)) = (number, zone) {
                seats.is_in(number, Some(zone));
            }
        }
        seats
    }

    /// Reads by name the claims that the list by label does not show: a user may have made one before, and it is used as it is.
    ///
    /// # Errors
    /// [`Error`]: a claim that cannot be read must not count as missing.
    pub(super) async fn find_claims(
        &mut self,
        ctx: &Arc<Context>,
        object: &ReplicaGroup,
        roster: Roster<'_>,
    ) -> Result<(), Error> {
        if self.makes_pods.is_none() {
            return Ok(());
        }
        let (namespace, group) = (object.namespace().unwrap_or_default(), object.name_any());
        let templates = || object.spec.volume_claim_templates.iter();
        let names =
            roster.seats().flat_map(|seat| templates().map(move |t| format!("{}-{}", t.metadata.name, seat.name)));
        let missing: Vec<String> =
            names.filter(|name| self.claims().all(|(_, claim)| claim.name != *name)).take(limits::MEMBERS).collect();
        let reads = missing.into_iter().map(|name| {
            let (ctx, namespace) = (ctx.clone(), namespace.clone());
            async move { within("claims", ctx.cluster.get::<PersistentVolumeClaim>(&namespace, &name)).await }
        });
        let found: Vec<_> = stream::iter(reads).buffer_unordered(READS).try_collect().await?;
        self.claims.extend(found.into_iter().flatten().filter_map(|claim| convert::claim(&group, &claim)));
        Ok(())
    }

    /// Adds what members lack of their claims and pods. `made`: the group with the template that pods get. Until the Service says of which revision pods are, none is made.
    ///
    /// # Errors
    /// When no pod can be made from the template.
    pub(super) async fn add_lacking(
        &self,
        ctx: &Context,
        set: &mut Set,
        made: &ReplicaGroup,
        roster: Roster<'_>,
        desired: &mut [Object],
    ) -> Result<(), Error> {
        let Some(name) = &self.makes_pods else { return Ok(()) };
        let service = desired.iter_mut().find(|object| object.kind == "Service" && object.name == *name);
        let Some(service) = service else { return Ok(()) };
        let manifest = service.manifest.clone();
        let annotations = manifest.pointer("/metadata/annotations");
        let revision = annotations.and_then(|notes| notes.get(ANNOTATION_POD_REVISION)?.as_str());
        let note = self.live_note();
        let is_noted = note.as_ref().is_some_and(|note| note.hash == self.template);
        set.unseen = !is_noted || revision.is_none() || self.newest_revision() != revision;
        if set.unseen {
            // A name that no member has.
            let next = roster.own().next;
            let zone = made.spec.zones.list.first().map(|zone| zone.name.as_str());
            let pod = objects::member(made, next, zone, &ctx.settings).map_err(Error::BuildObjects)?.pop();
            service.trial = pod.map(Arc::new);
        }
        let is_whole = |seat: &Seat| {
            let has_pod = self.pods.iter().any(|pod| pod.name_any() == seat.name.as_str());
            let claims = self.claims().filter(|(member, _)| **member == seat.name).count();
            has_pod && claims >= made.spec.volume_claim_templates.len()
        };
        let mut seats: Vec<Seat> = roster.seats().filter(|seat| !is_whole(seat)).collect();
        let noted = match note {
            None => return Ok(()),
            Some(_) if is_noted || seats.is_empty() => None,
            // As long as the API server refuses the present template, pods are made from the one before.
            Some(note) => match revisions::stored(ctx, made, &note.hash).await {
                Some(noted) => Some(noted),
                None => return Ok(()),
            },
        };
        let made = noted.as_ref().unwrap_or(made);
        let own = roster.own();
        order(ctx, &made.uid().unwrap_or_default(), &mut seats);
        // The others have their turn when these are there, or were refused.
        for seat in seats.split_off(seats.len().min(MADE_AT_ONCE)) {
            set.lacking.insert(seat.name, Vec::new());
        }
        for seat in seats {
            let zone = own.zone(seat.ordinal);
            let objects = objects::member(made, seat.ordinal, zone, &ctx.settings).map_err(Error::BuildObjects)?;
            let lacking = self.lacking(objects);
            if !lacking.is_empty() {
                set.lacking.insert(seat.name, lacking);
            }
        }
        Ok(())
    }

    /// The members whose pods could not be made, and why.
    pub(super) fn refused(ctx: &Context, group: &Group, set: &Set, now: Timestamp) -> BTreeMap<MemberName, Missing> {
        ctx.hints.with_group(&group.uid, |hints| {
            let missing = &mut hints.missing;
            missing.retain(|name, _| set.lacking.contains_key(&MemberName::from(name.as_str())));
            let all = set.lacking.keys().map(|name| {
                let since = *missing.entry(name.to_string()).or_insert(now);
                let refused = hints.unwritten.get(&hints::creation(name)).map(|before| before.why.clone());
                (name.clone(), Missing { since, refused })
            });
            all.collect()
        })
    }

    /// Those that are not there.
    fn lacking(&self, objects: Vec<serde_json::Value>) -> Vec<Object> {
        let all = objects.into_iter().map(|manifest| {
            let text =
                |pointer| manifest.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
            let (kind, name) = (text("/kind"), text("/metadata/name"));
            Object { kind, name, manifest: Arc::new(manifest), current: false, version: None, trial: None }
        });
        let is_there = |object: &Object| match object.kind.as_str() {
            "Pod" => self.pods.iter().any(|pod| pod.name_any() == object.name),
            _ => self.claims().any(|(_, claim)| claim.name == object.name),
        };
        all.filter(|object| !is_there(object)).collect()
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;

/// Sorts members by when it is their turn: those that leave may need nothing any more, and come last; those whose creation was refused come after the others, and the next one that is tried again first.
fn order(ctx: &Context, group: &str, seats: &mut [Seat]) {
    let refused: BTreeMap<String, Moment> = ctx.hints.with_group(group, |hints| {
        let again = |seat: &Seat| {
            let key = hints::creation(&seat.name);
            Some((seat.name.to_string(), hints.unwritten.get(&key)?.again))
        };
        seats.iter().filter_map(again).collect()
    });
    seats.sort_by_key(|seat| {
        (seat.standing == Standing::Leaving, refused.get(seat.name.as_str()).copied(), seat.ordinal)
    });
}

/// Whether a pod waits for a node in a zone although nobody divides the members among zones any more: it was made for what the user wanted then, and gets a new pod like one of an older template.
pub(super) fn waits_for_a_former_zone(pod: &Pod, object: &ReplicaGroup) -> bool {
    let waits = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none());
    waits && object.spec.zones.list.is_empty() && pod.labels().contains_key(LABEL_ZONE)
}
