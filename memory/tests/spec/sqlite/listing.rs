//! The list of sessions in the file.

use loopwright_core::Principal;
use loopwright_core::log::SessionQuery;

use super::*;

/// Returns the first entries of a session that was opened at this time.
fn opened(time: u64, owner: Option<&str>) -> Vec<LogEntry> {
    let owner = owner.map(Principal::new);
    let settings = json!({ "name": format!("Number {time}"), "system": "x".repeat(5_000) });
    vec![
        LogEntry::Opened { epoch: 1, time, parent: None, owner },
        LogEntry::Settings { settings: settings.into() },
    ]
}

/// Creates sessions of two owners and of none. Two of the sessions have changed at the same time.
async fn sessions(store: &Sqlite) {
    let owners = [None, Some("ann"), Some("bob"), Some("ann"), None, Some("ann")];
    for (number, owner) in (0..).zip(owners) {
        drop(begin(store, &format!("s{number}"), &opened(number / 2, owner)).await);
    }
}

/// Returns the pages of each kind with this limit.
async fn pages(store: &Sqlite, limit: usize) -> Result<Vec<Vec<SessionInfo>>, MemoryError> {
    let mut lists = Vec::new();
    for owner in [None, Some("ann"), Some("bob"), Some("c")] {
        for brief in [false, true] {
            let mut query = SessionQuery::new(limit);
            (query.owner, query.brief) = (owner.map(Principal::new), brief);
            let (mut list, mut next) = (Vec::new(), Some(query.clone()));
            while let Some(query) = next.take() {
                let page = store.sessions_page(&query).await?;
                list.extend(page.sessions);
                next = page.next.map(|cursor| query.after(cursor));
            }
            lists.push(list);
        }
    }
    Ok(lists)
}

/// C280: a file of the previous format gets a list of sessions when it is opened.
#[tokio::test]
async fn a_file_of_the_third_format_gets_a_list_of_sessions() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    sessions(&store).await;
    let before = pages(&store, 2).await.unwrap();
    drop(store);
    let raw = raw_connection(&path);
    let to_format_3 = "DROP TABLE schedule; DROP TABLE schedule_total; \
        DROP TABLE snapshot; DROP TABLE listing; DROP TABLE listing_total; \
        DROP INDEX pending_of_session; PRAGMA user_version = 3";
    raw.execute_batch(to_format_3).unwrap();
    drop(raw);
    let stores = [Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap()];
    for store in &stores {
        assert_eq!(pages(store, 2).await.unwrap(), before);
    }
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 3, 3, 1, 1, 0, 0]);
    assert_eq!(before[0], stores[0].sessions().await.unwrap());
    let brief: Vec<_> = before[0].iter().map(SessionInfo::brief).collect();
    assert!(before[1] == brief && brief != before[0]);
}

/// C280: changes of a session change the list, which keeps its order.
#[tokio::test]
async fn the_list_follows_the_sessions() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    sessions(&store).await;
    let names = async || -> Vec<String> {
        let lists = pages(&store, 1).await.unwrap();
        assert_eq!(lists, pages(&store, 9).await.unwrap());
        assert_eq!(lists[0], store.sessions().await.unwrap());
        lists[2].iter().map(|info| info.id.to_string()).collect()
    };
    assert_eq!(names().await, ["s5", "s3", "s1"]);
    let memory = store.open("s1").await.unwrap();
    memory.append(2, opened(7, None).into()).await.unwrap();
    assert_eq!(names().await, ["s1", "s5", "s3"]);
    drop(memory);
    store.fork("s3", None, "fork").await.unwrap();
    assert_eq!(names().await, ["s1", "s5", "fork", "s3"]);
    for session in ["fork", "s5"] {
        store.delete(session).await.unwrap();
    }
    assert_eq!(names().await, ["s1", "s3"]);
    drop(store.open("empty").await.unwrap());
    assert_eq!(names().await, ["s1", "s3"]);
}

/// C280: a session that was changed in the list, or can no longer be reached there, is damage.
#[tokio::test]
async fn a_damaged_list_of_sessions_is_reported() {
    for damage in [
        "UPDATE listing SET owner = 'bob' WHERE session = 's1'",
        "UPDATE listing SET position = -9 WHERE session = 's0'",
        "UPDATE listing SET json = replace(json, 'Number 1', 'Number 2')",
        "UPDATE listing SET session = 'other' WHERE session = 's2'",
        "DELETE FROM listing WHERE session = 's4'",
        "UPDATE listing_total SET sessions = 5",
        "DELETE FROM listing_total",
    ] {
        let (_folder, path) = temp_store_path();
        let store = Sqlite::open(&path).unwrap();
        sessions(&store).await;
        raw_connection(&path).execute(damage, ()).unwrap();
        let damaged = pages(&store, 2).await;
        assert!(matches!(damaged, Err(MemoryError::Damaged(_))), "{damage}: {damaged:?}");
    }
}
