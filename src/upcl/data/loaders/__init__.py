"""One module per source of data sets: built-in, CIFAR, Tiny-ImageNet, ImageNet, folders of images, npz files."""
