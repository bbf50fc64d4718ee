"""Closed forms to hold measurements against: diagonal linear networks, pretrained and fine-tuned
(Anguita et al. 2026, "A theory of how pretraining shapes inductive bias in fine-tuning", arXiv
2602.20062); features that pairwise labels teach (exponent, alignment)."""
