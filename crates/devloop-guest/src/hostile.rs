//! Owns a guest that misbehaves on request, so that tests can see a host survive it. It must never ship.
//!
//! The state document given to `open` names the misbehaviour; every later call then commits it.

use std::hint::black_box;

use crate::devloop::core::types::{CoreError, Decision, Event, Input, Question, Replayed, Step};
use crate::exports::devloop::core::machine as wit;

struct Hostile;
crate::export!(Hostile with_types_in crate);

struct Trouble(Vec<u8>);

impl Trouble {
    fn start(&self) {
        match self.0.as_slice() {
            b"spin" => spin(),
            b"bomb" => bomb(),
            b"recurse" => drop(black_box(recurse(1))),
            b"panic" => panic!("on purpose"),
            _ => {}
        }
    }
}

fn spin() {
    let mut word = 1_u64;
    while black_box(word) != 0 {
        word = word.wrapping_mul(6_364_136_223_846_793_005) | 1;
    }
}

fn bomb() {
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    loop {
        hoard.push(black_box(vec![7; 1 << 20]));
    }
}

fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == 0 { 0 } else { recurse(depth.wrapping_add(1)).wrapping_add(frame[(depth % 64) as usize]) }
}

impl wit::Guest for Hostile {
    type Session = Trouble;

    fn replay(state: Vec<u8>, _: Vec<u8>, _: Vec<Step>, _: u32) -> Result<Vec<Replayed>, CoreError> {
        Trouble(state).start();
        Ok(Vec::new())
    }
}

impl wit::GuestSession for Trouble {
    fn open(state: Vec<u8>, policy: Vec<u8>) -> Result<wit::Session, CoreError> {
        Trouble(policy).start();
        Ok(wit::Session::new(Trouble(state)))
    }

    fn decide(&self, _: Input) -> Result<Decision, CoreError> {
        self.start();
        unreachable!("only trouble is asked of this guest")
    }

    fn commit(&self) {
        self.start();
    }

    fn discard(&self) {
        self.start();
    }

    fn fold(&self, _: Vec<Event>) -> Result<(), CoreError> {
        self.start();
        Ok(())
    }

    fn set_policy(&self, _: Vec<u8>) -> Result<(), CoreError> {
        self.start();
        Ok(())
    }

    fn save(&self) -> Vec<u8> {
        self.start();
        self.0.clone()
    }

    fn digest(&self) -> String {
        self.start();
        String::new()
    }

    fn revision(&self) -> u64 {
        self.start();
        0
    }

    fn view(&self, _: u64) -> String {
        self.start();
        String::new()
    }

    fn questions(&self, _: u64) -> Vec<Question> {
        self.start();
        Vec::new()
    }
}
