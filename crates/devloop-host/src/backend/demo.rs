//! The demonstration: a sample repository whose embedded workers run through everything the loop does in half a
//! minute. It is data and a way to lay it out; nothing of the loop knows it.
