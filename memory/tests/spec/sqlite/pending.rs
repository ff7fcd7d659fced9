//! The pending actions in the file.

use loopwright_core::log::PendingQuery;
use loopwright_core::message::ToolCall;
use loopwright_core::tool::ActionTerms;

use super::*;

/// Returns a reply with pending calls, each for a decision of one of these roles.
fn waiting(actions: &[(String, &[&str])]) -> Vec<LogEntry> {
    let calls = actions.iter().map(|(call, _)| ToolCall::new(&**call, "pay", "{}"));
    let reply = AssistantMessage::new(calls.map(ContentPart::ToolCall).collect());
    let message = Message::new(MessageId(1), reply).into();
    let awaiting = (1..).zip(actions).map(|(time, (call, roles))| {
        let mut terms = ActionTerms::default();
        terms.roles = roles.iter().map(|role| (*role).into()).collect();
        LogEntry::CallAwaiting {
            call: (**call).into(),
            name: "pay".into(),
            arguments: Arc::new(json!({})),
            digest: "d".into(),
            request: None,
            terms: Arc::new(terms),
            time,
        }
    });
    std::iter::once(LogEntry::Replied { message, cost: None }).chain(awaiting).collect()
}

/// Returns the calls of the pages of two actions for a role.
async fn pages(store: &Sqlite, role: &str) -> Result<Vec<Vec<String>>, MemoryError> {
    let first = PendingQuery::new(2).role(role);
    let (mut pages, mut next) = (Vec::new(), Some(first.clone()));
    while let Some(query) = next.take() {
        let page = store.pending(&query).await?;
        pages.push(
            page.actions.into_iter().map(|pending| pending.action.call.to_string()).collect(),
        );
        next = page.next.map(|cursor| first.clone().after(cursor));
    }
    Ok(pages)
}

/// C308: the pages of a role are full, regardless of actions of other roles between them.
#[tokio::test]
async fn pages_of_a_role_are_full_among_many_of_other_roles() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let own: [(usize, &[&str]); 5] = [
        (300, &["clerk"]),
        (500, &["boss", "clerk"]),
        (700, &[]),
        (900, &["\"quoted\" \u{e9}", "clerk"]),
        (999, &["clerk"]),
    ];
    let roles = |n| own.iter().find(|(at, _)| *at == n).map_or(&["boss"][..], |(_, roles)| *roles);
    let actions: Vec<(String, &[&str])> =
        (0..1_000).map(|n| (format!("c{n:03}"), roles(n))).collect();
    let _owner = begin(&store, "s", &waiting(&actions)).await;
    let of_clerk = [vec!["c300", "c500"], vec!["c700", "c900"], vec!["c999"]];
    assert_eq!(pages(&store, "clerk").await.unwrap(), of_clerk);
    assert_eq!(pages(&store, "\"quoted\" \u{e9}").await.unwrap(), [["c700", "c900"]]);
    assert_eq!(pages(&store, "quoted").await.unwrap(), [["c700"]]);
    assert_eq!(pages(&store, "boss").await.unwrap().concat().len(), 997);

    // A damaged row is reported regardless of its roles: they may be damaged.
    let damage = "UPDATE pending SET json = replace(json, 'clerk', 'clesk') WHERE call = 'c300'";
    raw_connection(&path).execute_batch(damage).unwrap();
    let error = pages(&store, "clerk").await.unwrap_err();
    assert!(matches!(error, MemoryError::Damaged(_)), "{error}");
}
