//! Decisions of other people in another process.

use serde_json::{Value, json};

use crate::world::World;

fn pay(euros: f64) -> (&'static str, Value) {
    ("pay", json!({ "to": "Alpha", "euros": euros }))
}

/// C299: a payment over 100 € is approved in another process by another principal with the role
/// that the amount needs, and by nobody else. A smaller one needs no approval.
#[test]
fn a_large_payment_is_approved_by_another_principal() {
    let world = World::new("86400");
    world.ask(&[pay(50.0)]);
    world.model.request().say("Paid.");
    world.ask(&[pay(199.0)]);
    let action = world.pending(1).remove(0);
    assert_eq!(action["terms"]["roles"], json!(["treasurer"]));
    let approve = || json!({ "decision": "approve" });
    assert_eq!(world.decide("ann", &action, approve()).0, 403);
    assert_eq!(world.bank.booked(), ["50 € to Alpha"]);
    assert_eq!(world.decide("bob", &action, approve()).0, 200);
    let request = world.model.request();
    assert!(request.last().contains("booked 199 € to Alpha"), "{}", request.body);
    request.say("Paid.");
    world.ask(&[pay(20_000.0)]);
    let action = world.pending(1).remove(0);
    assert_eq!(world.decide("bob", &action, approve()).0, 404, "bob does not see the session");
    assert_eq!(world.decide("carol", &action, approve()).0, 200);
    assert!(world.model.request().last().contains("booked 20000 € to Alpha"));
}

/// C299: an edited payment is made with its edits, and a denied one is not made.
#[test]
fn a_payment_is_edited_or_denied() {
    let world = World::new("86400");
    world.ask(&[pay(199.0)]);
    let edit = json!({ "decision": "approve_with", "arguments": { "to": "Beta", "euros": 150 } });
    assert_eq!(world.decide("bob", &world.pending(1)[0], edit).0, 200);
    let request = world.model.request();
    assert!(request.last().contains("booked 150 € to Beta"), "{}", request.body);
    request.say("Paid.");
    world.ask(&[pay(300.0)]);
    let deny = json!({ "decision": "deny", "reason": "It was paid in May." });
    assert_eq!(world.decide("bob", &world.pending(1)[0], deny).0, 200);
    assert!(world.model.request().last().contains("It was paid in May."));
    assert_eq!(world.bank.booked(), ["150 € to Beta"]);
}

/// C299: three payments at once are each approved or denied.
#[test]
fn three_payments_are_decided_at_once() {
    let world = World::new("86400");
    world.ask(&[pay(101.0), pay(102.0), pay(103.0)]);
    let actions = world.pending(3);
    for (action, decision) in actions.iter().zip(["approve", "deny", "approve"]) {
        let decision = json!({ "decision": decision, "reason": "No." });
        let decided = world.decide("bob", action, decision);
        assert_eq!(decided.0, 200, "{decided:?}");
    }
    world.model.request().say("Two are paid.");
    assert_eq!(world.bank.booked().len(), 2, "{:?}", world.bank.booked());
}

/// C299: a payment that nobody decides is denied at its deadline.
#[test]
fn a_payment_expires() {
    let world = World::new("1");
    world.ask(&[pay(199.0)]);
    let request = world.model.request();
    assert!(!request.last().contains("booked"), "{}", request.body);
    request.say("It was not paid.");
    assert_eq!(world.bank.arrived(), Vec::<String>::new());
    assert_eq!(world.actions("operator"), Vec::<Value>::new());
}
