//! What was found: the shortest conversation of each kind.
