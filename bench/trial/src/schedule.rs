//! Decides the order of the trials: each round holds every system once, in a random order that the seed
//! fixes.

use tollgate_lab_record::Trial;

/// One trial to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The round, from 1.
    pub round: u32,
    /// The position within the round, from 1.
    pub turn: u32,
    /// The index into the cell's list of systems.
    pub system: usize,
}

/// Returns the turns of a cell. `together` holds the sizes of the groups into which the list of systems is
/// divided; the systems of a group run next to each other in every round, in random order. The order depends
/// only on the seed and the cell's id, so that a continued run takes the remaining turns in the same order.
pub fn order(seed: u64, cell: &str, together: &[usize], rounds: u32) -> Vec<Turn> {
    // FNV-1a (Fowler, Noll, Vo) spreads the id over 64 bits. Any fixed hash would do; the standard library's
    // is not fixed.
    let cell_seed = cell
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut random = fastrand::Rng::with_seed(seed ^ cell_seed);
    let mut first = 0;
    let groups = together.iter().map(|count| {
        first += count;
        (first - count..first).collect()
    });
    let groups: Vec<Vec<usize>> = groups.collect();
    let mut turns = Vec::new();
    for round in 1..=rounds {
        let mut list = groups.clone();
        random.shuffle(&mut list);
        list.iter_mut().for_each(|group| random.shuffle(group));
        turns.extend((1..).zip(list.into_iter().flatten()).map(|(turn, system)| Turn {
            round,
            turn,
            system,
        }));
    }
    turns
}

/// Removes the turns that an earlier run has measured.
pub fn left(turns: Vec<Turn>, cell: &str, systems: &[String], made: &[Trial]) -> Vec<Turn> {
    let is_made = |turn: &Turn| {
        made.iter().any(|trial| {
            trial.cell == cell && trial.round == turn.round && trial.system == systems[turn.system]
        })
    };
    turns.into_iter().filter(|turn| !is_made(turn)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_lab_record::{Evidence, Status};

    #[test]
    fn each_round_holds_every_system_once_and_orders_differ() {
        let turns = order(7, "1-1", &[1; 6], 20);
        for round in 1..=20 {
            let mut systems: Vec<usize> =
                turns.iter().filter(|turn| turn.round == round).map(|turn| turn.system).collect();
            systems.sort_unstable();
            assert_eq!(systems, [0, 1, 2, 3, 4, 5]);
        }
        let first: Vec<usize> = turns[..6].iter().map(|turn| turn.system).collect();
        assert!(
            (1..20).any(|round| turns[round * 6..round * 6 + 6]
                .iter()
                .map(|turn| turn.system)
                .ne(first.clone()))
        );
    }

    #[test]
    fn what_is_compared_follows_each_other_in_either_order() {
        let turns = order(7, "1-1", &[2, 1, 2], 20);
        let rounds: Vec<Vec<usize>> =
            turns.chunks(5).map(|round| round.iter().map(|turn| turn.system).collect()).collect();
        let place = |round: &[usize], system| round.iter().position(|at| *at == system).unwrap();
        for round in &rounds {
            for (a, b) in [(0, 1), (3, 4)] {
                assert_eq!(place(round, a).abs_diff(place(round, b)), 1, "{round:?}");
            }
        }
        for first in [true, false] {
            assert!(rounds.iter().any(|round| (place(round, 0) < place(round, 1)) == first));
        }
    }

    #[test]
    fn the_seed_fixes_the_order_of_each_cell() {
        assert_eq!(order(7, "1-1", &[1; 5], 3), order(7, "1-1", &[1; 5], 3));
        assert_ne!(order(7, "1-1", &[1; 5], 8), order(8, "1-1", &[1; 5], 8));
        assert_ne!(order(7, "1-1", &[1; 5], 8), order(7, "1-2", &[1; 5], 8));
    }

    #[test]
    fn a_continued_run_makes_only_what_is_left() {
        let systems = ["a".to_owned(), "b".to_owned()];
        let made = Trial {
            cell: "1-1".into(),
            system: "b".into(),
            round: 2,
            turn: 1,
            at: 0.0,
            load: None,
            evidence: Evidence::default(),
            cost: None,
            warm_up: 0.0,
            status: Status::Good,
        };
        let left = left(order(1, "1-1", &[1; 2], 2), "1-1", &systems, &[made]);
        assert_eq!(left.len(), 3);
        assert!(left.iter().all(|turn| (turn.round, turn.system) != (2, 1)));
    }
}
