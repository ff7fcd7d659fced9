//! Tests of the vectors in RAM: they equal the vectors in the file, and are bounded.

use super::*;

const DIMENSIONS: usize = 19;

fn vector(seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let value = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    normalised((0..DIMENSIONS).map(value).collect(), DIMENSIONS).unwrap()
}

fn query(seed: u64) -> QueryVector {
    QueryVector { embedder: "e".into(), values: vector(seed) }
}

/// Returns a connection to a file in RAM with the tables that vectors need.
fn connection() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    let tables = "CREATE TABLE scope (id INTEGER PRIMARY KEY, facts INTEGER, removals INTEGER);
        CREATE TABLE fact (id INTEGER PRIMARY KEY, scope INTEGER, text TEXT);
        CREATE TABLE vector (number INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER,
            fact INTEGER UNIQUE, embedder TEXT, data BLOB);";
    connection.execute_batch(tables).unwrap();
    connection
}

/// Adds facts with their vectors to a scope.
fn add(connection: &Connection, scope: ScopeId, ids: std::ops::Range<u64>) {
    let count = ids.clone().count() as i64;
    connection.execute("INSERT OR IGNORE INTO scope VALUES (?, 0, 0)", (scope.0,)).unwrap();
    connection
        .execute("UPDATE scope SET facts = facts + ? WHERE id = ?", (count, scope.0))
        .unwrap();
    for id in ids {
        connection.execute("INSERT INTO fact VALUES (?, ?, '')", (id as i64, scope.0)).unwrap();
        store(connection, id, "e", &vector(id)).unwrap_or_else(|_| panic!("fact {id}"));
    }
}

fn found(cache: &VectorCache, connection: &Connection, scope: ScopeId, seed: u64) -> Vec<u64> {
    let found = cache.search(connection, scope, &query(seed), -1.0, 10);
    let found = found.unwrap_or_else(|_| panic!("scope {scope:?}"));
    found.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn the_vectors_in_ram_are_those_of_the_file_after_every_change() {
    let connection = connection();
    let (cache, small) = (VectorCache::new(1 << 20), VectorCache::new(0));
    let scope = ScopeId(1);
    let check = || {
        for seed in 1000..1020 {
            let from_ram = found(&cache, &connection, scope, seed);
            assert_eq!(from_ram, found(&small, &connection, scope, seed));
        }
        assert_eq!(small.bytes(), 0);
    };
    add(&connection, scope, 1..50);
    check();
    add(&connection, scope, 50..80); // as another process does
    check();
    assert_eq!(found(&cache, &connection, scope, 7)[0], 7, "its own vector is the closest");
    connection.execute("DELETE FROM vector WHERE fact = 7", ()).unwrap();
    connection.execute("UPDATE scope SET removals = removals + 1", ()).unwrap();
    check();
    assert!(!found(&cache, &connection, scope, 7).contains(&7));
    store(&connection, 8, "e", &vector(7)).unwrap_or_else(|_| panic!("replaced"));
    check();
    assert_eq!(found(&cache, &connection, scope, 7)[0], 8);
}

#[test]
fn the_vectors_of_other_embedders_are_not_compared() {
    let connection = connection();
    let scope = ScopeId(1);
    add(&connection, scope, 1..10);
    let cache = VectorCache::new(1 << 20);
    let other = QueryVector { embedder: "other".into(), values: vector(1) };
    assert!(cache.search(&connection, scope, &other, -1.0, 10).is_ok_and(|found| found.is_empty()));
    assert_eq!(found(&cache, &connection, scope, 1).len(), 9);
}

#[test]
fn the_least_recently_used_scopes_leave_the_ram() {
    let connection = connection();
    let scope_bytes = 10 * (DIMENSIONS * 4 + 16);
    let cache = VectorCache::new(3 * scope_bytes);
    for scope in 1..=20 {
        add(&connection, ScopeId(scope), scope as u64 * 10..scope as u64 * 10 + 10);
    }
    for scope in (1..=20).chain([1, 20, 1]) {
        let id = scope as u64 * 10;
        assert_eq!(found(&cache, &connection, ScopeId(scope), id)[0], id);
        assert!(cache.bytes() <= 3 * scope_bytes, "{} bytes", cache.bytes());
        assert!(cache.bytes() > 0);
    }
}

#[test]
fn a_vector_without_a_direction_is_none() {
    assert_eq!(normalised(vec![3.0, 4.0], 2), Some(vec![0.6, 0.8]));
    for wrong in [vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0], vec![1.0]] {
        assert_eq!(normalised(wrong, 2), None);
    }
    let large = normalised(vec![f32::MAX, f32::MAX], 2).unwrap();
    assert!((large[0] - 0.5_f32.sqrt()).abs() < 1e-6);
}
