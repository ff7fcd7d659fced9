//! The first server is killed at eight points, and the second one continues.

use serde_json::{Value, json};

use crate::bank::Next;
use crate::world::World;

fn pay(tool: &'static str) -> (&'static str, Value) {
    (tool, json!({ "to": "Alpha", "euros": 199 }))
}

fn approve() -> Value {
    json!({ "decision": "approve" })
}

/// Lets the model make a call, and decides on it.
fn decided(call: (&str, Value), next: Next, decision: Value) -> World {
    let world = World::new("86400");
    world.ask(&[call]);
    let action = world.pending(1).remove(0);
    world.bank.set(next);
    let user = if decision["decision"] == "provide" { "ann" } else { "bob" };
    let sent = world.decide(user, &action, decision);
    assert_eq!(sent.0, 200, "{sent:?}");
    world
}

/// Kills the first server and lets the second one continue. Returns the last message of the next
/// request. An acknowledged decision is not asked for again.
fn killed(mut world: World) -> (World, String) {
    world.kill();
    world.bank.set(Next::Book);
    let request = world.recover();
    let last = request.last();
    request.say("Done.");
    assert_eq!(world.actions("operator"), Vec::<Value>::new());
    (world, last)
}

/// C300: killed before the bank has booked: the payment is not made again, and the model reads that
/// its outcome is unknown.
#[test]
fn a_kill_before_the_effect() {
    let world = decided(pay("pay"), Next::HoldBefore, approve());
    world.bank.until_held();
    let (world, last) = killed(world);
    assert!(!last.contains("booked"), "{last}");
    assert_eq!(world.bank.arrived(), Vec::<String>::new());
}

/// C300: killed after the bank has booked and before its receipt.
#[test]
fn a_kill_after_the_effect() {
    let world = decided(pay("pay"), Next::HoldAfter, approve());
    world.bank.until_held();
    let (world, last) = killed(world);
    assert!(!last.contains("booked"), "{last}");
    assert_eq!(world.bank.arrived(), ["199 € to Alpha"]);
}

/// C300: an idempotent payment is repeated with the same key, so the bank books it once.
#[test]
fn a_kill_after_an_idempotent_effect() {
    let world = decided(pay("pay_idem"), Next::HoldAfter, approve());
    world.bank.until_held();
    let (world, last) = killed(world);
    assert!(last.contains("booked 199"), "{last}");
    assert_eq!(world.bank.arrived().len(), 2);
    assert_eq!(world.bank.booked(), ["199 € to Alpha"]);
}

/// C300: killed while the decision is on its way: it is sent again if it was not acknowledged.
#[test]
fn a_kill_while_the_decision_is_written() {
    let mut world = World::new("86400");
    world.ask(&[pay("pay")]);
    let action = world.pending(1).remove(0);
    world.bank.set(Next::HoldBefore);
    let mut sent = world.send_decision("bob", &action, approve());
    world.kill();
    let answer = sent.response().unwrap();
    assert_eq!(answer.status, 200, "the second server answers: {answer:?}");
    world.bank.set(Next::Book);
    world.recover().say("Done.");
    assert!(world.bank.arrived().len() <= 1, "{:?}", world.bank.arrived());
    assert_eq!(world.actions("operator"), Vec::<Value>::new());
}

/// C300: killed after the decision is acknowledged, while the start of the call is written.
#[test]
fn a_kill_while_the_start_of_the_call_is_written() {
    let world = decided(pay("pay"), Next::HoldBefore, approve());
    let (world, _) = killed(world);
    assert!(world.bank.arrived().len() <= 1, "{:?}", world.bank.arrived());
}

/// C300: killed while one of three payments is made.
#[test]
fn a_kill_during_a_batch() {
    let world = World::new("86400");
    let call = |euros: u32| ("pay", json!({ "to": "Alpha", "euros": euros }));
    world.ask(&[call(101), call(102), call(103)]);
    world.bank.set(Next::HoldAfter);
    for action in world.pending(3) {
        let sent = world.decide("bob", &action, approve());
        assert_eq!(sent.0, 200, "{sent:?}");
    }
    world.bank.until_held();
    let (world, _) = killed(world);
    let mut arrived = world.bank.arrived();
    arrived.sort();
    assert_eq!(arrived, world.bank.booked());
    arrived.dedup();
    assert_eq!(arrived, world.bank.booked(), "each at most once");
}

/// C300: killed after a suspended tool has received its input, while its effect is made.
#[test]
fn a_kill_after_a_suspended_tool_was_resumed() {
    let ship = ("ship", json!({ "order": "A7" }));
    let carrier = json!({ "decision": "provide", "data": { "van": 4 } });
    let world = decided(ship, Next::HoldAfter, carrier);
    world.bank.until_held();
    let (world, _) = killed(world);
    assert_eq!(world.bank.arrived(), [r#"A7 with {"van":4}"#]);
}

/// C300: killed after the result is logged, while the model is asked.
#[test]
fn a_kill_after_the_result() {
    let world = decided(pay("pay"), Next::Book, approve());
    drop(world.model.request());
    let (world, last) = killed(world);
    assert!(last.contains("booked 199"), "{last}");
    assert_eq!(world.bank.arrived(), ["199 € to Alpha"]);
}
