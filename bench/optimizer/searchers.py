"""Searchers of papers, for comparison: who imports this may name them like the optimizer's own."""

from bench.optimizer.ajoin_paper import reordering
from bench.optimizer.clash_paper import paper
from bench.optimizer.multistream_chain import chain
from watersmeet.optimize.search import searchers

searchers.update(ajoin=reordering, chain=chain, paper=paper)
