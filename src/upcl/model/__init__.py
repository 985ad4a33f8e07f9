"""A growing model in one file: learn folders of photos, add classes later, predict, export and serve.

`upcl.model.learner.Learner` is the entry point; `upcl.model.estimator.GrowingClassifier` offers the same to users of
scikit-learn. One update passes through these modules: `spec` (what the model is made with), `intake` (which of the
images are new), `plan` and `update` (train, evaluate, accept or reject) and `file` (write the `.upcl` file). One
prediction passes through `sources` (decode the image), `predictor` and `scoring` (scores, confidence, "none of these").
"""
