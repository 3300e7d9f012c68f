//! Stories of whole groups under the shipped round.
use super::policies::Natural;
use super::register;
use std::time::Duration;
use tanist_core::contract::Role;
use tanist_sim::controllers;
use tanist_sim::operator::Operator;
use tanist_sim::world::World;

/// The roles of the members, in truth.
fn roles(world: &World, replicas: u32) -> Vec<Option<Role>> {
    let state = world.lock();
    (0..replicas).map(|ordinal| state.machine(&format!("db-{ordinal}")).map(|machine| machine.app.role)).collect()
}

fn condition(world: &World, kind: &str) -> Option<String> {
    let state = world.lock();
    let status = state.groups["db"].status.clone()?;
    status.conditions.into_iter().find(|c| c.type_ == kind).map(|c| c.status)
}

fn log(world: &World) -> String {
    world.lock().log.join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_group_forms_and_a_lost_primary_is_replaced() {
    let world = World::new(3, 1);
    world.create(register(3));
    tokio::spawn(controllers::run(world.clone()));
    let operator = Operator::new(&world, 1, Box::new(Natural));
    operator.run("db", Duration::from_secs(60)).await;
    let formed = [Some(Role::Primary), Some(Role::Secondary), Some(Role::Secondary)];
    assert_eq!(roles(&world, 3), formed, "{}", log(&world));
    assert_eq!(condition(&world, "Ready").as_deref(), Some("True"), "{}", log(&world));
    // The primary's pod is deleted by a user.
    controllers::delete(&mut world.lock(), "db-0");
    operator.run("db", Duration::from_secs(60)).await;
    let after = [Some(Role::Secondary), Some(Role::Primary), Some(Role::Secondary)];
    assert_eq!(roles(&world, 3), after, "{}", log(&world));
    assert_eq!(condition(&world, "Ready").as_deref(), Some("True"), "{}", log(&world));
}
