//! A bank that the tests control. It records orders, and recognises the idempotency keys it got.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use loopwright_test_support::TEST_TIMEOUT;

/// The bank's treatment of the next order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The bank books it and replies.
    Book,
    /// The bank neither books it nor replies, once.
    HoldBefore,
    /// The bank books it and does not reply, once.
    HoldAfter,
}

pub(crate) struct Bank {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
    held: Receiver<()>,
}

struct State {
    next: Next,
    /// The keys and orders as they were booked, including repetitions of known keys.
    booked: Vec<(String, String)>,
    /// The connections of the held orders.
    open: Vec<TcpStream>,
}

impl Bank {
    pub(crate) fn open() -> Bank {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let new = State { next: Next::Book, booked: Vec::new(), open: Vec::new() };
        let state = Arc::new(Mutex::new(new));
        let (to_test, held) = channel();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut line = String::new();
                let _ = BufReader::new(&stream).read_line(&mut line); // its sender may be killed
                let Some((key, order)) = line.trim_end().split_once('\t') else { continue };
                let mut state = shared.lock().unwrap();
                let next = std::mem::replace(&mut state.next, Next::Book);
                if next != Next::HoldBefore {
                    state.booked.push((key.into(), order.into()));
                }
                if next == Next::Book {
                    let _ = (&stream).write_all(format!("booked {order}").as_bytes());
                } else {
                    state.open.push(stream);
                    let _ = to_test.send(()); // the test may have ended
                }
            }
        });
        Bank { address, state, held }
    }

    /// Sets the treatment of the next order, and closes the connections of orders held so far.
    pub(crate) fn set(&self, next: Next) {
        let mut state = self.state.lock().unwrap();
        state.next = next;
        state.open.clear();
    }

    /// Waits until an order is held.
    pub(crate) fn until_held(&self) {
        self.held.recv_timeout(TEST_TIMEOUT).unwrap();
    }

    /// Returns the orders that arrived and were booked, with repetitions.
    pub(crate) fn arrived(&self) -> Vec<String> {
        self.state.lock().unwrap().booked.iter().map(|(_, order)| order.clone()).collect()
    }

    /// Returns the booked orders. Orders with the same key count once.
    pub(crate) fn booked(&self) -> Vec<String> {
        let mut booked = self.state.lock().unwrap().booked.clone();
        booked.sort();
        booked.dedup();
        let mut orders: Vec<String> = booked.into_iter().map(|(_, order)| order).collect();
        orders.sort();
        orders
    }
}
